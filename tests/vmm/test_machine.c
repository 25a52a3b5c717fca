/* A machine's life: creation that fails with a message, boot, crashes with symbols, data files, the end. */
#include "tests/vmm/rig.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>

#include "guest/abi/memory.h"
#include "vmm/kvm.h"

static const uint8_t spin[] = {0xeb, 0xfe};

static int create(struct machine_spec *spec, char *why)
{
	static const struct machine_handlers handlers;
	struct machine *machine;
	int error = machine_create(spec, &handlers, NULL, &machine, why);

	cr_assert_null(machine);
	return error;
}

Test(machine, without_kvm_it_says_what_to_do)
{
	size_t bytes;
	void *image = image_make(spin, sizeof(spin), &bytes);
	struct domain_spec domain = {.name = "d",
	                             .image = image,
	                             .image_bytes = bytes,
	                             .n_slots = 1,
	                             .stack_bytes = 4096,
	                             .data_fd = -1};
	struct machine_spec spec = {
		.name = "g", .n_vcpus = 1, .n_domains = 1, .domains = &domain, .kvm_fd = -1};
	char why[WHY_BYTES];

	cr_expect_eq(create(&spec, why), -ENODEV);
	cr_expect_str_eq(why, "KVM is not there: /dev/kvm is not open. Run `portcullis doctor`");
	/* A descriptor of something else is no KVM either. */
	spec.kvm_fd = STDERR_FILENO;
	cr_expect_eq(create(&spec, why), -ENODEV);
	domain.image_bytes = 20;
	cr_expect_eq(create(&spec, why), -EINVAL);
	cr_expect_str_eq(why, "domain d: its image: not an ELF image: 20 bytes are less than a header");
	free(image);
}

/* Nothing is left of a machine: descriptors and mappings. */
static int n_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

Test(machine, who_may_not_open_kvm_is_told_what_helps)
{
	static const struct {
		struct kvm_access access;
		const char *says, *says_not;
	} all[] = {
		{{0660, 104, "kvm", false}, "usermod -a -G kvm USER", "setfacl"},
		{{0660, 36, "virt", false}, "usermod -a -G virt USER", "kvm USER"},
		{{0660, 104, "kvm", true}, "lets you in", "usermod"},
		{{0666, 0, "root", false}, "lets you in", "usermod"},
		{{0600, 104, "kvm", true}, "setfacl -m u:USER:rw /dev/kvm", "usermod"},
		{{0600, 0, "root", false}, "setfacl -m u:USER:rw /dev/kvm", "usermod"},
		{{0660, 0, "root", false}, "setfacl -m u:USER:rw /dev/kvm", "usermod"},
	};
	char why[WHY_BYTES];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		kvm_explain_denial(EACCES, &all[i].access, why);
		cr_expect(strstr(why, "/dev/kvm: Permission denied: "), "%s", why);
		cr_expect(strstr(why, all[i].says), "%zu: %s", i, why);
		cr_expect(!strstr(why, all[i].says_not), "%zu: %s", i, why);
	}
}

Test(machine, leaves_nothing_behind, .timeout = 180)
{
	int before = n_descriptors();

	for (int i = 0; i < 20; i++) {
		struct rig rig;

		rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 2});
		if (i % 2 == 0)
			rig_start(&rig);
		rig_destroy(&rig);
	}
	cr_expect_eq(n_descriptors(), before);
}

/* xorl %eax, %eax; movl %eax, (%rax) */
static const uint8_t null_write[] = {0x90, 0x31, 0xc0, 0x89, 0x00};

Test(machine, a_domain_that_faults_is_named_and_the_guest_goes_on, .timeout = 180)
{
	size_t bytes;
	void *image = image_make(null_write, sizeof(null_write), &bytes);
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.n_vcpus = 1, .image = image, .image_bytes = bytes});
	rig_start(&rig);
	UNTIL(rig_load(&rig.n_domain_crashes) == 1);
	pthread_mutex_lock(&rig.lock);
	cr_expect_eq(rig.crash.domain, 0);
	cr_expect_eq(rig.crash.vector, 14);
	cr_expect_eq(rig.crash.rip, VA_IMAGE + 3);
	cr_expect_eq(rig.crash.cr2, 0);
	cr_expect_not_null(
		strstr(rig.crash.text, "page fault at 0x400003, write to 0x0 (nothing is mapped there)"),
		"%s", rig.crash.text);
	pthread_mutex_unlock(&rig.lock);
	cr_expect_eq(machine_state(rig.machine), MACHINE_RUNNING);
	UNTIL(machine_domain_state(rig.machine, 0) == DOMAIN_DEAD);
	rig_stop(&rig);
	rig_resume(&rig);
	rig_destroy(&rig);
	free(image);
}

Test(machine, a_triple_fault_tells_registers_and_symbol, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "spin", .n_vcpus = 2});
	rig_mail(&rig, 1)->command = 1;
	rig_start(&rig);
	struct pollfd ended = {.fd = machine_ended_fd(rig.machine), .events = POLLIN};
	cr_assert_eq(poll(&ended, 1, 30000), 1);
	cr_expect_eq(machine_state(rig.machine), MACHINE_CRASHED);
	cr_expect_eq(rig_load(&rig.n_crashes), 1);
	cr_expect_eq(rig.crash.vcpu, 1);
	cr_expect_eq(rig.crash.domain, NO_DOMAIN);
	cr_expect_not_null(strstr(rig.crash.text, "vCPU 1: triple fault at 0xffffffff8"), "%s",
	                   rig.crash.text);
	cr_expect_not_null(strstr(rig.crash.text, "(kernel_entry+0x"), "%s", rig.crash.text);
	cr_expect_not_null(strstr(rig.crash.text, "rbp 0x"), "%s", rig.crash.text);
	UNTIL(rig_state(&rig, 0) == STOP_GONE && rig_state(&rig, 1) == STOP_GONE);
	/* It cannot start again. */
	cr_expect_eq(machine_start(rig.machine, rig.why), -EINVAL);
	cr_expect_str_eq(rig.why, "guest rig cannot start: it is crashed");
	rig_destroy(&rig);
}

Test(machine, a_kernel_panic_ends_the_guest, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "panic", .n_vcpus = 1});
	rig_start(&rig);
	UNTIL(rig_state(&rig, 0) == STOP_GONE);
	cr_expect_eq(machine_state(rig.machine), MACHINE_CRASHED);
	cr_expect_eq(rig_load(&rig.n_crashes), 1);
	cr_expect_eq(rig.crash.vector, 13);
	cr_expect_str_eq(rig.crash.text,
	                 "vCPU 0: kernel panic: protection fault at 0xffffffff80000005 (kernel_entry+0x5), "
	                 "error 0x18, rsp 0xffffffffb0004000");
	cr_expect_eq(rig_counter(&rig, 0), 0, "it went on");
	rig_destroy(&rig);
}

/*
 * Adds up the words of its data file into the counting word, for ever. rsi: data, rcx: words
 *	movabs $VA_DATA, %rsi; xorl %edx, %edx; movl $1024, %ecx; 1: addq (%rsi), %rdx; addq $8, %rsi;
 *	decl %ecx; jnz 1b; movabs $VA_CALL + 2048, %rax; movq %rdx, (%rax); 2: jmp 2b
 */
static const uint8_t sum_data[] = {0x48, 0xbe, 0,    0,    0,    0,    0,    0x30, 0,    0,    0x31,
                                   0xd2, 0xb9, 0,    0x04, 0,    0,    0x48, 0x03, 0x16, 0x48, 0x83,
                                   0xc6, 0x08, 0xff, 0xc9, 0x75, 0xf5, 0x48, 0xb8, 0,    0x08, 0,
                                   0,    0,    0x11, 0,    0,    0x48, 0x89, 0x10, 0xeb, 0xfe};

static int data_file(uint64_t words, int seals)
{
	int fd = memfd_create("data", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	for (uint64_t i = 1; i <= words; i++)
		cr_assert_eq(write(fd, &i, sizeof(i)), (ssize_t)sizeof(i));
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

Test(machine, a_data_file_is_read_in_the_guest, .timeout = 180)
{
	size_t bytes;
	void *image = image_make(sum_data, sizeof(sum_data), &bytes);
	int fd = data_file(1000, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	struct rig rig;

	/* The file ends within its second page: behind it are zeros. */
	rig_create(&rig, &(struct rig_spec){.kernel = "enter",
	                                    .n_vcpus = 1,
	                                    .image = image,
	                                    .image_bytes = bytes,
	                                    .data_fd = fd,
	                                    .data_bytes = 8000});
	close(fd);
	rig_start(&rig);
	UNTIL(rig_count(&rig, 0) == 1000 * 1001 / 2);
	rig_destroy(&rig);
	free(image);
}

Test(machine, a_data_file_that_can_change_is_refused, .timeout = 180)
{
	size_t bytes;
	void *image = image_make(spin, sizeof(spin), &bytes);
	struct domain_spec domain = {.name = "d",
	                             .image = image,
	                             .image_bytes = bytes,
	                             .n_slots = 1,
	                             .stack_bytes = 4096,
	                             .data_fd = data_file(8, F_SEAL_GROW),
	                             .data_bytes = 64};
	struct machine_spec spec = {
		.name = "g", .n_vcpus = 1, .n_domains = 1, .domains = &domain, .kvm_fd = rig_kvm()};
	char why[WHY_BYTES];

	cr_expect_eq(create(&spec, why), -EINVAL);
	cr_expect_str_eq(why, "domain d: its data is no sealed file of 64 bytes");
	domain.data_fd = data_file(8, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	domain.data_bytes = 128;
	cr_expect_eq(create(&spec, why), -EINVAL, "its size is not what was said");
	free(image);
}

/* The real kernel on every vCPU of a large guest; each says that it is up. */
Test(machine, sixteen_vcpus_boot, .timeout = 300)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.n_vcpus = MAX_VCPUS, .n_domains = MAX_DOMAINS});
	rig_start(&rig);
	UNTIL(rig_load(&rig.n_ready) == MAX_VCPUS);
	for (uint32_t i = 0; i < MAX_VCPUS; i++)
		UNTIL(rig_count(&rig, i) > 0);
	cr_expect_eq(rig_load(&rig.n_crashes) + rig_load(&rig.n_domain_crashes), 0, "%s", rig.crash.text);
	cr_expect_eq(rig_load(&rig.n_bad), 0);
	rig_destroy(&rig);
}
