#include "vmm/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/machine.h"

/* Three pages that some Intel processors need to emulate real mode; far from RAM and windows. */
#define TSS_ADDRESS 0xfffbd000ul

static const struct {
	long capability;
	int at_least;
	const char *name;
} needed[] = {
	{KVM_CAP_USER_MEMORY, 1, "KVM_CAP_USER_MEMORY"},
	{KVM_CAP_READONLY_MEM, 1, "KVM_CAP_READONLY_MEM"},
	{KVM_CAP_IRQCHIP, 1, "KVM_CAP_IRQCHIP"},
	{KVM_CAP_SPLIT_IRQCHIP, 1, "KVM_CAP_SPLIT_IRQCHIP"},
	{KVM_CAP_SIGNAL_MSI, 1, "KVM_CAP_SIGNAL_MSI"},
	{KVM_CAP_IRQ_ROUTING, (int)MAX_GUESTS, "KVM_CAP_IRQ_ROUTING"},
	{KVM_CAP_IRQFD, 1, "KVM_CAP_IRQFD"},
	{KVM_CAP_IOEVENTFD, 1, "KVM_CAP_IOEVENTFD"},
	{KVM_CAP_IMMEDIATE_EXIT, 1, "KVM_CAP_IMMEDIATE_EXIT"},
	{KVM_CAP_MP_STATE, 1, "KVM_CAP_MP_STATE"},
	{KVM_CAP_GET_TSC_KHZ, 1, "KVM_CAP_GET_TSC_KHZ"},
	{KVM_CAP_EXT_CPUID, 1, "KVM_CAP_EXT_CPUID"},
	{KVM_CAP_NR_MEMSLOTS, 4 + (int)MAX_DOMAINS, "KVM_CAP_NR_MEMSLOTS"},
	{KVM_CAP_MAX_VCPUS, (int)MAX_VCPUS, "KVM_CAP_MAX_VCPUS"},
};

void kvm_explain_denial(int error, const struct kvm_access *access, char why[static WHY_BYTES])
{
	int n = snprintf(why, WHY_BYTES, "/dev/kvm: %s: ", strerror(error));
	size_t left = n > 0 && (size_t)n < WHY_BYTES ? WHY_BYTES - (size_t)n : 0;
	bool for_group = (access->mode & 0060) == 0060, for_all = (access->mode & 0006) == 0006;

	if (for_all || (for_group && access->member))
		snprintf(why + n, left,
		         "its mode (%04o %s) lets you in, so something else forbids it: of a container its "
		         "device "
		         "rules (--device /dev/kvm), or a security module",
		         access->mode & 0777, access->group);
	else if (for_group && access->gid != 0)
		snprintf(why + n, left, "add yourself to its group (usermod -a -G %s USER) and log in again",
		         access->group);
	else
		snprintf(why + n, left,
		         "its group %s (mode %04o) is not one to join: as root, setfacl -m u:USER:rw "
		         "/dev/kvm; or "
		         "chgrp kvm /dev/kvm, chmod 0660 /dev/kvm, and add yourself to that group",
		         access->group, access->mode & 0777);
}

static bool is_member(gid_t gid)
{
	gid_t groups[256];
	int n = getgroups(sizeof(groups) / sizeof(groups[0]), groups);

	for (int i = 0; i < n; i++)
		if (groups[i] == gid)
			return true;
	return gid == getegid();
}

/* Of this host's own file, where what makes /dev/kvm has its group; else its number. */
static void name_group(gid_t gid, char *name, size_t bytes)
{
	FILE *file = fopen("/etc/group", "re");
	struct group group, *found;
	char buffer[4096];

	snprintf(name, bytes, "%u", (unsigned)gid);
	while (file && fgetgrent_r(file, &group, buffer, sizeof(buffer), &found) == 0)
		if (group.gr_gid == gid) {
			snprintf(name, bytes, "%s", group.gr_name);
			break;
		}
	if (file)
		fclose(file);
}

static void explain_denial(int error, char why[static WHY_BYTES])
{
	struct kvm_access access = {.group = "?"};
	char name[64];
	struct stat status;

	if (stat("/dev/kvm", &status)) {
		snprintf(why, WHY_BYTES, "/dev/kvm: %s", strerror(error));
		return;
	}
	name_group(status.st_gid, name, sizeof(name));
	access.mode = status.st_mode;
	access.gid = status.st_gid;
	access.group = name;
	access.member = is_member(status.st_gid);
	kvm_explain_denial(error, &access, why);
}

int machine_open_kvm(char why[static WHY_BYTES])
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int error = errno;

	if (fd >= 0)
		return fd;
	if (error == ENOENT || error == ENODEV || error == ENXIO)
		snprintf(why, WHY_BYTES,
		         "/dev/kvm: %s: turn on virtualisation in the firmware (or nested virtualisation in "
		         "the "
		         "hypervisor below) and load the module: modprobe kvm_intel, or kvm_amd",
		         strerror(error));
	else if (error == EACCES || error == EPERM)
		explain_denial(error, why);
	else
		snprintf(why, WHY_BYTES, "/dev/kvm: %s", strerror(error));
	return -error;
}

int machine_check_kvm(int kvm_fd, char why[static WHY_BYTES])
{
	int version = kvm_fd < 0 ? -1 : ioctl(kvm_fd, KVM_GET_API_VERSION, 0);

	if (version < 0) {
		snprintf(why, WHY_BYTES, "KVM is not there: /dev/kvm is not open. Run `portcullis doctor`");
		return -ENODEV;
	}
	if (version != KVM_API_VERSION) {
		snprintf(why, WHY_BYTES, "KVM speaks API version %d, not %d: this kernel is too old", version,
		         KVM_API_VERSION);
		return -ENOTSUP;
	}
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (ioctl(kvm_fd, KVM_CHECK_EXTENSION, needed[i].capability) >= needed[i].at_least)
			continue;
		snprintf(why, WHY_BYTES, "KVM lacks %s: a newer kernel is needed", needed[i].name);
		return -ENOTSUP;
	}
	return 0;
}

static int vm_failed(const char *what, char *why)
{
	int error = errno;

	snprintf(why, WHY_BYTES, "KVM: %s: %s", what, strerror(error));
	return -error;
}

int kvm_vm_create(int kvm_fd, char why[static WHY_BYTES])
{
	/*
	 * 7.5 KVM_CAP_SPLIT_IRQCHIP: local APICs in the kernel, and neither PIC nor
	 * I/O APIC anywhere: devices that are not there cannot be attacked.
	 */
	struct kvm_enable_cap apic_only = {.cap = KVM_CAP_SPLIT_IRQCHIP, .args = {0}};
	int error = machine_check_kvm(kvm_fd, why);

	if (error != 0)
		return error;
	int vm_fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
	if (vm_fd < 0)
		return vm_failed("KVM_CREATE_VM", why);
	(void)ioctl(vm_fd, KVM_SET_TSS_ADDR, TSS_ADDRESS); /* where it is not needed it may be refused */
	if (ioctl(vm_fd, KVM_ENABLE_CAP, &apic_only) < 0) {
		error = vm_failed("local APICs in the kernel", why);
		close(vm_fd);
		return error;
	}
	return vm_fd;
}

/* SDM vol. 3A, 10.11: physical destination, fixed delivery. */
#define MSI_ADDRESS 0xfee00000u
#define MSI_APIC_ID_SHIFT 12

int kvm_routes_set(int vm_fd, uint8_t first_vector, char why[static WHY_BYTES])
{
	_Alignas(struct kvm_irq_routing)
		uint8_t bytes[sizeof(struct kvm_irq_routing) +
	                      MAX_GUESTS * sizeof(struct kvm_irq_routing_entry)] = {0};
	struct kvm_irq_routing *table = (struct kvm_irq_routing *)bytes;

	table->nr = MAX_GUESTS;
	for (uint32_t i = 0; i < MAX_GUESTS; i++)
		table->entries[i] = (struct kvm_irq_routing_entry){
			.gsi = i,
			.type = KVM_IRQ_ROUTING_MSI,
			.u.msi = {.address_lo = MSI_ADDRESS, .data = first_vector + i},
		};
	return ioctl(vm_fd, KVM_SET_GSI_ROUTING, table) < 0 ? vm_failed("KVM_SET_GSI_ROUTING", why) : 0;
}

int kvm_memslot_add(int vm_fd, uint32_t id, uint64_t gpa, const void *memory, uint64_t bytes, bool read_only,
                    const char *what, char why[static WHY_BYTES])
{
	struct kvm_userspace_memory_region region = {
		.slot = id,
		.flags = read_only ? KVM_MEM_READONLY : 0,
		.guest_phys_addr = gpa,
		.memory_size = bytes,
		.userspace_addr = (uint64_t)(uintptr_t)memory,
	};

	return ioctl(vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0 ? vm_failed(what, why) : 0;
}

void kvm_wake(int vm_fd, uint32_t apic_id, uint8_t vector)
{
	struct kvm_msi msi = {.address_lo = MSI_ADDRESS | apic_id << MSI_APIC_ID_SHIFT, .data = vector};

	/* It fails only when the vCPU's APIC is off, and then there is nobody to wake. */
	(void)ioctl(vm_fd, KVM_SIGNAL_MSI, &msi);
}
