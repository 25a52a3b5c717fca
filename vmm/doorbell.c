#include "vmm/doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "vmm/check.h"
#include "vmm/machine_state.h"

void doorbell_init(struct doorbell *doorbell, struct machine *from, uint32_t number, struct machine *to,
                   uint32_t line)
{
	CHECK(line < MAX_GUESTS);
	*doorbell = (struct doorbell){.from = from, .to = to, .number = number, .line = line, .fd = -1};
}

static int open_fd(struct doorbell *doorbell)
{
	if (doorbell->fd < 0 && doorbell->to->wake_fd >= 0)
		doorbell->fd = fcntl(doorbell->to->wake_fd, F_DUPFD_CLOEXEC, 0);
	else if (doorbell->fd < 0)
		doorbell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return doorbell->fd < 0 ? -errno : 0;
}

/* KVM knows a half by its eventfd, so that stays open as long as one is bound. */
static void close_fd(struct doorbell *doorbell)
{
	if (doorbell->fd < 0 || doorbell->rings || doorbell->heard)
		return;
	close(doorbell->fd);
	doorbell->fd = -1;
}

static int ring_set(const struct doorbell *doorbell, uint32_t flags)
{
	struct kvm_ioeventfd ring = {
		.datamatch = doorbell->number,
		.addr = DOORBELL_PORT,
		.len = 4,
		.fd = doorbell->fd,
		.flags = KVM_IOEVENTFD_FLAG_PIO | KVM_IOEVENTFD_FLAG_DATAMATCH | flags,
	};

	if (doorbell->from->vm_fd < 0) /* the host rings by machine_wake */
		return 0;
	return ioctl(doorbell->from->vm_fd, KVM_IOEVENTFD, &ring) < 0 ? -errno : 0;
}

static int line_set(const struct doorbell *doorbell, uint32_t flags)
{
	struct kvm_irqfd line = {.fd = (uint32_t)doorbell->fd, .gsi = doorbell->line, .flags = flags};

	if (doorbell->to->vm_fd < 0) /* the ring is a wake of the machine */
		return 0;
	return ioctl(doorbell->to->vm_fd, KVM_IRQFD, &line) < 0 ? -errno : 0;
}

int doorbell_bind_ring(struct doorbell *doorbell)
{
	int error = doorbell->rings ? 0 : open_fd(doorbell);

	if (doorbell->rings || error < 0)
		return error;
	error = ring_set(doorbell, 0);
	doorbell->rings = error == 0;
	close_fd(doorbell);
	return error;
}

/* Rings that nobody was to hear are not heard later: KVM would make one interrupt of them. */
static void drain(const struct doorbell *doorbell)
{
	uint64_t rings;
	ssize_t n = read(doorbell->fd, &rings, sizeof(rings));

	CHECK(n == sizeof(rings) || errno == EAGAIN);
}

int doorbell_bind_line(struct doorbell *doorbell)
{
	int error = doorbell->heard ? 0 : open_fd(doorbell);

	if (doorbell->heard || error < 0)
		return error;
	if (doorbell->to->vm_fd >= 0)
		drain(doorbell);
	error = line_set(doorbell, 0);
	doorbell->heard = error == 0;
	close_fd(doorbell);
	return error;
}

void doorbell_unbind_ring(struct doorbell *doorbell)
{
	if (!doorbell->rings)
		return;
	CHECK(ring_set(doorbell, KVM_IOEVENTFD_FLAG_DEASSIGN) == 0);
	doorbell->rings = false;
	close_fd(doorbell);
}

void doorbell_unbind_line(struct doorbell *doorbell)
{
	if (!doorbell->heard)
		return;
	CHECK(line_set(doorbell, KVM_IRQFD_FLAG_DEASSIGN) == 0);
	doorbell->heard = false;
	close_fd(doorbell);
}

struct doorbell_page *doorbell_page(struct machine *machine)
{
	return machine->record == NULL
	               ? NULL
	               : (struct doorbell_page *)(machine->record + machine->layout.doorbell_offset);
}
