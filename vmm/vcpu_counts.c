#include "vmm/vcpu_counts.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "vmm/machine_state.h"
#include "vmm/stop.h"

#define MOST_DESCRIPTORS 1024u /* Linux 6.18 has 45 */
#define MOST_NAME_BYTES 256u

static const char *const names[N_VCPU_COUNTS] = {"exits", "signal_exits", "irq_exits"};

static int read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	ssize_t n = pread(fd, to, bytes, (off_t)offset);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EPROTO;
}

/* One descriptor and its name; what it counts, if it is one of ours, is found at that offset. */
static void take(const struct kvm_stats_desc *descriptor, const struct kvm_stats_header *header,
                 struct vcpu_counts *counts, bool found[static N_VCPU_COUNTS])
{
	for (unsigned i = 0; i < N_VCPU_COUNTS; i++) {
		if (strncmp(descriptor->name, names[i], header->name_size) != 0 || descriptor->size != 1)
			continue;
		counts->offset[i] = (uint64_t)header->data_offset + descriptor->offset;
		found[i] = true;
	}
}

static int find(struct vcpu_counts *counts)
{
	bool found[N_VCPU_COUNTS] = {false};
	struct kvm_stats_header header;
	int error = read_at(counts->fd, &header, sizeof(header), 0);
	struct kvm_stats_desc *descriptor;
	size_t bytes;

	if (error < 0)
		return error;
	if (header.num_desc > MOST_DESCRIPTORS || header.name_size > MOST_NAME_BYTES)
		return -EPROTO;
	bytes = sizeof(*descriptor) + header.name_size;
	descriptor = calloc(1, bytes);
	if (!descriptor)
		return -ENOMEM;
	for (uint32_t i = 0; i < header.num_desc && error == 0; i++) {
		error = read_at(counts->fd, descriptor, bytes, header.desc_offset + i * bytes);
		if (error == 0)
			take(descriptor, &header, counts, found);
	}
	free(descriptor);
	for (unsigned i = 0; i < N_VCPU_COUNTS && error == 0; i++)
		if (!found[i])
			error = -ENOTSUP;
	return error;
}

int vcpu_counts_open(const struct machine *machine, uint32_t vcpu, struct vcpu_counts *counts,
                     char why[static WHY_BYTES])
{
	int error = 0;

	counts->fd = -1;
	if (vcpu >= machine->layout.n_vcpus || !machine_stands(machine)) {
		snprintf(why, WHY_BYTES, "%s: vCPU %u does not stand", machine->name, vcpu);
		return -EBUSY;
	}
	counts->fd = ioctl(machine->vcpu[vcpu].fd, KVM_GET_STATS_FD, 0);
	if (counts->fd < 0)
		error = errno == ENOTTY || errno == EINVAL ? -ENOTSUP : -errno;
	else
		error = find(counts);
	if (error == 0)
		return 0;
	snprintf(why, WHY_BYTES, "KVM's counters of a vCPU (KVM_GET_STATS_FD, Linux 5.14 and later): %s",
	         strerror(-error));
	vcpu_counts_close(counts);
	return error;
}

void vcpu_counts_close(struct vcpu_counts *counts)
{
	if (counts->fd >= 0)
		close(counts->fd);
	counts->fd = -1;
}

int vcpu_counts_read(const struct vcpu_counts *counts, uint64_t value[static N_VCPU_COUNTS])
{
	int error = 0;

	for (unsigned i = 0; i < N_VCPU_COUNTS && error == 0; i++)
		error = read_at(counts->fd, &value[i], sizeof(value[i]), counts->offset[i]);
	return error;
}
