#include "tests/vmm/rig.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/abi/memory.h"

#define COUNT_OFFSET 2048

static void add(uint64_t *word, uint64_t n)
{
	__atomic_fetch_add(word, n, __ATOMIC_SEQ_CST);
}

uint64_t rig_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static int64_t on_request(void *owner, const struct guest_request *request)
{
	struct rig *rig = owner;

	add(request->call == HYPERCALL_READY ? &rig->n_ready : &rig->n_requests, 1);
	pthread_mutex_lock(&rig->lock);
	rig->request = *request;
	pthread_mutex_unlock(&rig->lock);
	/* What machine.h promises of every request. */
	bool whole = request->call == HYPERCALL_READY ? request->domain == NO_DOMAIN
	                                              : request->domain < rig->machine->layout.n_domains;
	if (whole && request->call != HYPERCALL_READY)
		whole = rig->machine->layout.domain[request->domain].vcpu == request->vcpu;
	if (request->call == HYPERCALL_CONNECT)
		whole = whole && strlen(request->text) == request->argument[0];
	for (const char *c = request->text; *c != '\0'; c++)
		whole = whole && *c > ' ' && *c <= '~';
	add(&rig->n_bad, whole ? 0 : 1);
	return CALL_OK;
}

static void on_log(void *owner, uint32_t domain, const char *text, uint64_t n_lost)
{
	struct rig *rig = owner;

	(void)domain;
	add(&rig->n_logs, 1);
	add(&rig->n_lost, n_lost);
	for (const char *c = text; *c != '\0'; c++)
		if ((uint8_t)*c < ' ' || *c == 0x7f)
			add(&rig->n_bad, 1);
	pthread_mutex_lock(&rig->lock);
	memcpy(rig->log, text, strlen(text) + 1);
	pthread_mutex_unlock(&rig->lock);
}

static void on_crash(void *owner, const struct machine_crash *crash)
{
	struct rig *rig = owner;

	pthread_mutex_lock(&rig->lock);
	rig->crash = *crash;
	pthread_mutex_unlock(&rig->lock);
	add(crash->domain == NO_DOMAIN ? &rig->n_crashes : &rig->n_domain_crashes, 1);
}

static bool on_rang(void *owner, uint32_t number)
{
	struct rig *rig = owner;

	(void)number;
	add(&rig->n_rang, 1);
	return false;
}

int rig_kvm(void)
{
	char why[WHY_BYTES];
	int fd = machine_open_kvm(why);

	if (fd >= 0)
		return fd;
	const char *ci = getenv("CI");
	cr_assert(ci == NULL || strcmp(ci, "true") != 0, "%s", why);
	cr_skip_test("%s", why);
	return -1;
}

void *file_read(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;

	cr_assert(fd >= 0 && fstat(fd, &status) == 0, "%s: run this from the top of the tree, after make",
	          path);
	*bytes = (size_t)status.st_size;
	void *content = malloc(*bytes);
	cr_assert(read(fd, content, *bytes) == (ssize_t)*bytes);
	close(fd);
	return content;
}

void *image_make(const void *code, size_t code_bytes, size_t *image_bytes)
{
	const size_t head = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_entry = VA_IMAGE,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
	};
	Elf64_Phdr segment = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_offset = head,
		.p_vaddr = VA_IMAGE,
		.p_filesz = code_bytes,
		.p_memsz = code_bytes,
	};
	uint8_t *image = malloc(head + code_bytes);

	memcpy(image, &header, sizeof(header));
	memcpy(image + sizeof(header), &segment, sizeof(segment));
	memcpy(image + head, code, code_bytes);
	*image_bytes = head + code_bytes;
	return image;
}

/* movabs $VA_CALL + COUNT_OFFSET, %rax; 1: incq (%rax); jmp 1b */
static void *counting_image(size_t *bytes)
{
	const uint64_t at = VA_CALL + COUNT_OFFSET;
	uint8_t code[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0xff, 0x00, 0xeb, 0xfb};

	memcpy(code + 2, &at, sizeof(at));
	return image_make(code, sizeof(code), bytes);
}

void rig_create(struct rig *rig, const struct rig_spec *spec)
{
	static const struct machine_handlers handlers = {
		.request = on_request, .log = on_log, .crashed = on_crash, .rang = on_rang};
	struct domain_spec domains[MAX_DOMAINS];
	char path[128];
	size_t kernel_bytes = 0, image_bytes = spec->image_bytes;
	void *kernel = NULL, *counting = spec->image == NULL ? counting_image(&image_bytes) : NULL;
	uint32_t n_domains = spec->n_domains != 0 ? spec->n_domains : spec->n_vcpus;
	int kvm_fd = rig_kvm();

	memset(rig, 0, sizeof(*rig));
	pthread_mutex_init(&rig->lock, NULL);
	if (spec->kernel != NULL) {
		snprintf(path, sizeof(path), "build/tests/kernels/%s.elf", spec->kernel);
		kernel = file_read(path, &kernel_bytes);
	}
	for (uint32_t i = 0; i < n_domains; i++)
		domains[i] = (struct domain_spec){
			.name = "domain",
			.image_name = "image",
			.image = spec->image != NULL ? spec->image : counting,
			.image_bytes = image_bytes,
			.arguments = spec->arguments,
			.n_arguments = spec->n_arguments,
			.vcpu = i % spec->n_vcpus,
			.n_slots = 4,
			.heap_bytes = 8192,
			.stack_bytes = 8192,
			.data_fd = spec->data_fd > 0 ? spec->data_fd : -1,
			.data_bytes = spec->data_bytes,
		};
	struct machine_spec machine = {
		.name = "rig",
		.n_vcpus = spec->n_vcpus,
		.n_domains = n_domains,
		.domains = domains,
		.bulk_bytes = 65536,
		.kernel_image = kernel,
		.kernel_bytes = kernel_bytes,
		.kvm_fd = kvm_fd,
	};
	int error = machine_create(&machine, &handlers, rig, &rig->machine, rig->why);
	cr_assert(error == 0, "%s", rig->why);
	rig->machine->window_hook = spec->hook;
	free(kernel);
	free(counting);
	close(kvm_fd);
}

void rig_start(struct rig *rig)
{
	int error = machine_start(rig->machine, rig->why);

	cr_assert(error == 0, "%s", rig->why);
}

void rig_destroy(struct rig *rig)
{
	machine_destroy(rig->machine);
	pthread_mutex_destroy(&rig->lock);
}

struct stop_report rig_stop(struct rig *rig)
{
	struct stop_report report;
	int error =
		stop_machines(&rig->machine, 1, monotonic_ns() + RIG_PATIENCE_NS, &report, NULL, rig->why);

	cr_assert(error == 0, "%s", rig->why);
	return report;
}

void rig_resume(struct rig *rig)
{
	int error = resume_machines(&rig->machine, 1, monotonic_ns() + RIG_PATIENCE_NS, rig->why);

	cr_assert(error == 0, "%s", rig->why);
}

struct mailbox *rig_mail(struct rig *rig, uint32_t vcpu)
{
	const struct machine *machine = rig->machine;

	return (struct mailbox *)(machine->ram + machine->layout.cpus.gpa + vcpu * KERNEL_CPU_STRIDE +
	                          MAILBOX_OFFSET);
}

uint64_t rig_counter(struct rig *rig, uint32_t vcpu)
{
	return rig_load(&rig_mail(rig, vcpu)->counter);
}

uint64_t rig_count(struct rig *rig, uint32_t domain)
{
	const struct machine *machine = rig->machine;

	return rig_load(
		(const uint64_t *)(machine->ram + machine->layout.domain[domain].call.gpa + COUNT_OFFSET));
}

enum stop_state rig_state(struct rig *rig, uint32_t vcpu)
{
	return stop_state_of(&rig->machine->vcpu[vcpu].stop);
}

void rig_pause(void)
{
	const struct timespec moment = {.tv_nsec = 50000};

	ppoll(NULL, 0, &moment, NULL);
}
