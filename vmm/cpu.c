/* A vCPU as guest/abi/boot.h describes it at the kernel's entry. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "guest/abi/memory.h"
#include "vmm/cpuid.h"
#include "vmm/machine_state.h"

/* SDM vol. 3A, 2.5 (control registers), 2.2.1 (EFER); vol. 4 (MSRs). */
#define CR0_PE 0x00000001ull
#define CR0_MP 0x00000002ull
#define CR0_ET 0x00000010ull
#define CR0_NE 0x00000020ull
#define CR0_WP 0x00010000ull
#define CR0_AM 0x00040000ull
#define CR0_PG 0x80000000ull
#define CR4_PAE 0x020ull
#define CR4_OSFXSR 0x200ull
#define CR4_OSXMMEXCPT 0x400ull
#define EFER_SCE 0x001ull
#define EFER_LME 0x100ull
#define EFER_LMA 0x400ull
#define EFER_NXE 0x800ull
#define APIC_BASE 0xfee00000ull
#define APIC_BASE_BSP 0x100ull
#define APIC_BASE_X2APIC 0x400ull
#define APIC_BASE_ENABLED 0x800ull
#define APIC_SPURIOUS_REGISTER 0xf0
#define APIC_SOFTWARE_ENABLED 0x100u
#define MSR_TSC 0x10u
#define MSR_STAR 0xc0000081u
#define MSR_LSTAR 0xc0000082u
#define MSR_FMASK 0xc0000084u
#define MSR_KERNEL_GS_BASE 0xc0000102u
#define SYSCALL_FLAGS_CLEARED 0x00047700ull /* TF IF DF IOPL NT AC */
#define RFLAGS_RESERVED 0x2ull

/* A struct kvm_msrs with room. */
struct msrs {
	uint32_t n_entries, padding;
	struct kvm_msr_entry entry[4];
};

static int failed(const struct vcpu *vcpu, const char *what, char *why)
{
	int error = errno != 0 ? errno : EIO;

	snprintf(why, WHY_BYTES, "guest %s: vCPU %u: KVM: %s: %s", vcpu->machine->name, vcpu->index, what,
	         strerror(error));
	return -error;
}

static void segments_set(const struct vcpu *vcpu, struct kvm_sregs *sregs)
{
	const uint64_t cpu_va = layout_cpu_va(vcpu->index);
	const struct kvm_segment data = {
		.limit = 0xffffffff,
		.selector = SELECTOR_KERNEL_DATA,
		.type = 3,
		.present = 1,
		.db = 1,
		.s = 1,
		.g = 1,
	};

	sregs->cs = (struct kvm_segment){
		.limit = 0xffffffff,
		.selector = SELECTOR_KERNEL_CODE,
		.type = 11,
		.present = 1,
		.s = 1,
		.l = 1,
		.g = 1,
	};
	sregs->ds = sregs->es = sregs->fs = sregs->gs = sregs->ss = data;
	sregs->gs.base = cpu_va;
	sregs->tr = (struct kvm_segment){
		.base = cpu_va + offsetof(struct kernel_cpu, tss),
		.limit = sizeof(((struct kernel_cpu *)0)->tss) - 1,
		.selector = SELECTOR_TSS,
		.type = 11,
		.present = 1,
	};
	sregs->ldt = (struct kvm_segment){.type = 2, .unusable = 1};
	sregs->gdt.base = cpu_va + offsetof(struct kernel_cpu, gdt);
	sregs->gdt.limit = sizeof(((struct kernel_cpu *)0)->gdt) - 1;
	sregs->idt.base = VA_KERNEL_IDT;
	sregs->idt.limit = ABI_PAGE_BYTES - 1;
}

static int special_registers_set(struct vcpu *vcpu, char *why)
{
	struct kvm_sregs sregs;

	if (ioctl(vcpu->fd, KVM_GET_SREGS, &sregs) < 0)
		return failed(vcpu, "KVM_GET_SREGS", why);
	segments_set(vcpu, &sregs);
	sregs.cr0 = CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_AM | CR0_PG;
	sregs.cr3 = vcpu->machine->layout.cr3;
	sregs.cr4 = CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT | vcpu->offered_cr4;
	sregs.efer = EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE;
	sregs.apic_base =
		APIC_BASE | APIC_BASE_ENABLED | APIC_BASE_X2APIC | (vcpu->index == 0 ? APIC_BASE_BSP : 0);
	if (ioctl(vcpu->fd, KVM_SET_SREGS, &sregs) < 0)
		return failed(vcpu, "KVM_SET_SREGS", why);
	return 0;
}

static int msrs_set(struct vcpu *vcpu, char *why)
{
	const uint64_t user_base = SELECTOR_USER_DATA - 8;
	struct msrs msrs = {
		.n_entries = 4,
		.entry =
			{
				{.index = MSR_STAR,
	                         .data = user_base << 48 | (uint64_t)SELECTOR_KERNEL_CODE << 32},
				{.index = MSR_LSTAR,
	                         .data = elf_symbol_find(&vcpu->machine->layout.kernel, "syscall_entry")},
				{.index = MSR_FMASK, .data = SYSCALL_FLAGS_CLEARED},
				{.index = MSR_KERNEL_GS_BASE, .data = layout_cpu_va(vcpu->index)},
			},
	};

	errno = 0;
	if (ioctl(vcpu->fd, KVM_SET_MSRS, &msrs) != 4)
		return failed(vcpu, "KVM_SET_MSRS", why);
	return 0;
}

static int apic_set(struct vcpu *vcpu, char *why)
{
	const uint32_t spurious = APIC_SOFTWARE_ENABLED | VECTOR_SPURIOUS;
	struct kvm_lapic_state apic;

	if (ioctl(vcpu->fd, KVM_GET_LAPIC, &apic) < 0)
		return failed(vcpu, "KVM_GET_LAPIC", why);
	memcpy(apic.regs + APIC_SPURIOUS_REGISTER, &spurious, sizeof(spurious));
	if (ioctl(vcpu->fd, KVM_SET_LAPIC, &apic) < 0)
		return failed(vcpu, "KVM_SET_LAPIC", why);
	return 0;
}

static int general_registers_set(struct vcpu *vcpu, char *why)
{
	struct kvm_regs regs = {
		.rip = vcpu->machine->layout.kernel.entry,
		.rdi = layout_cpu_va(vcpu->index),
		.rsp = layout_stack_top_va(vcpu->index),
		.rflags = RFLAGS_RESERVED,
	};

	if (ioctl(vcpu->fd, KVM_SET_REGS, &regs) < 0)
		return failed(vcpu, "KVM_SET_REGS", why);
	return 0;
}

static int float_registers_set(struct vcpu *vcpu, char *why)
{
	struct kvm_fpu fpu = {.fcw = 0x37f, .mxcsr = 0x1f80};

	if (ioctl(vcpu->fd, KVM_SET_FPU, &fpu) < 0)
		return failed(vcpu, "KVM_SET_FPU", why);
	return 0;
}

/* All but the first wait for a start-up signal otherwise. */
static int runnable_set(struct vcpu *vcpu, char *why)
{
	struct kvm_mp_state state = {.mp_state = KVM_MP_STATE_RUNNABLE};

	if (ioctl(vcpu->fd, KVM_SET_MP_STATE, &state) < 0)
		return failed(vcpu, "KVM_SET_MP_STATE", why);
	return 0;
}

int cpu_registers_set(struct vcpu *vcpu, char why[static WHY_BYTES])
{
	int error = special_registers_set(vcpu, why);

	if (error == 0)
		error = msrs_set(vcpu, why);
	if (error == 0)
		error = apic_set(vcpu, why);
	if (error == 0)
		error = general_registers_set(vcpu, why);
	if (error == 0)
		error = float_registers_set(vcpu, why);
	return error == 0 ? runnable_set(vcpu, why) : error;
}

int cpu_create(struct machine *machine, uint32_t index, int kvm_fd, const struct cpuid_table *supported,
               char why[static WHY_BYTES])
{
	struct kvm_enable_cap offered_only = {.cap = KVM_CAP_ENFORCE_PV_FEATURE_CPUID, .args = {1}};
	struct vcpu *vcpu = &machine->vcpu[index];
	struct cpuid_table allowed;

	vcpu->machine = machine;
	vcpu->index = index;
	vcpu->fd = ioctl(machine->vm_fd, KVM_CREATE_VCPU, index);
	if (vcpu->fd < 0)
		return failed(vcpu, "KVM_CREATE_VCPU", why);
	int bytes = ioctl(kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (bytes < 0)
		return failed(vcpu, "KVM_GET_VCPU_MMAP_SIZE", why);
	void *run = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd, 0);
	if (run == MAP_FAILED)
		return failed(vcpu, "mapping of its run page", why);
	vcpu->run = run;
	vcpu->run_bytes = (size_t)bytes;
	cpuid_allow(supported, index, machine->layout.n_vcpus, &allowed);
	if (ioctl(vcpu->fd, KVM_SET_CPUID2, &allowed) < 0)
		return failed(vcpu, "KVM_SET_CPUID2", why);
	vcpu->offered_cr4 = cpuid_cr4(&allowed);
	/* 7.1: what CPUID does not offer is not there either: paravirtual MSRs and hypercalls. Old kernels
	 * lack it. */
	(void)ioctl(vcpu->fd, KVM_ENABLE_CAP, &offered_only);
	return 0;
}

int cpu_facts(struct vcpu *vcpu, struct boot_facts *facts, char why[static WHY_BYTES])
{
	struct msrs msrs = {.n_entries = 1, .entry = {{.index = MSR_TSC}}};
	struct timespec now;
	int khz = ioctl(vcpu->fd, KVM_GET_TSC_KHZ, 0);

	if (khz <= 0)
		return failed(vcpu, "KVM_GET_TSC_KHZ", why);
	errno = 0;
	if (ioctl(vcpu->fd, KVM_GET_MSRS, &msrs) != 1)
		return failed(vcpu, "KVM_GET_MSRS", why);
	clock_gettime(CLOCK_REALTIME, &now);
	facts->tsc_khz = (uint64_t)khz;
	facts->start_tsc = msrs.entry[0].data;
	facts->start_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return 0;
}
