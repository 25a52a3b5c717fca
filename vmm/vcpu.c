#include "vmm/vcpu.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "vmm/check.h"
#include "vmm/futex.h"
#include "vmm/priority.h"

/* Two KVM_RUNs complete any I/O that port_decode lets pass; more is a guest that means harm. */
#define MAX_COMPLETIONS 16

static __thread struct kvm_run *run_of_thread;
static bool kicks_are_broken;

static void immediate_exit_set(struct kvm_run *run, uint8_t value)
{
	__atomic_store_n(&run->immediate_exit, value, __ATOMIC_SEQ_CST);
}

static int kick_signal(void)
{
	return SIGRTMIN;
}

static void kick_handler(int signal)
{
	(void)signal;
	if (run_of_thread != NULL && !__atomic_load_n(&kicks_are_broken, __ATOMIC_RELAXED))
		immediate_exit_set(run_of_thread, 1);
}

int vcpu_signal_install(void)
{
	struct sigaction action = {.sa_handler = kick_handler, .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	return sigaction(kick_signal(), &action, NULL) < 0 ? -errno : 0;
}

void vcpu_break_kicks(bool broken)
{
	__atomic_store_n(&kicks_are_broken, broken, __ATOMIC_RELAXED);
}

void vcpu_kick(struct stop_vcpu *stop)
{
	struct vcpu *vcpu = (struct vcpu *)((char *)stop - offsetof(struct vcpu, stop));

	if (!__atomic_load_n(&kicks_are_broken, __ATOMIC_RELAXED))
		immediate_exit_set(vcpu->run, 1);
	CHECK(pthread_kill(vcpu->thread, kick_signal()) == 0);
}

void vcpu_hurry(struct stop_vcpu *stop)
{
	struct vcpu *vcpu = (struct vcpu *)((char *)stop - offsetof(struct vcpu, stop));

	if (priority_lend(vcpu->borrower))
		__atomic_store_n(&vcpu->lent, 1, __ATOMIC_SEQ_CST);
}

static void count(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

static void guest_lost(struct vcpu *vcpu, const char *what)
{
	struct machine_crash crash;

	crash_describe_guest(vcpu, what, &crash);
	machine_crashed(vcpu->machine, &crash);
}

static bool in_vain(struct vcpu *vcpu, const char *storm)
{
	if (bucket_take(&vcpu->storm, monotonic_ns(), VAIN_EXITS_PER_SECOND, VAIN_EXITS_BURST))
		return true;
	guest_lost(vcpu, storm);
	return false;
}

static bool window_write(struct vcpu *vcpu)
{
	count(&vcpu->counters.window_writes);
	return in_vain(vcpu, "a storm of writes into read-only windows (the host allows 10,000 a second)");
}

static bool rang(struct vcpu *vcpu, uint32_t number)
{
	const struct machine *machine = vcpu->machine;

	if (machine->handlers.rang != NULL && machine->handlers.rang(machine->owner, number))
		return true;
	count(&vcpu->counters.stray_rings);
	return in_vain(vcpu,
	               "a storm of rings of doorbells that it has not (the host allows 10,000 a second)");
}

static bool count_read(struct vcpu *vcpu, uint32_t *value)
{
	*value = ++vcpu->n_reads;
	return true;
}

/* False: the vCPU is to leave. */
static bool exit_handle(struct vcpu *vcpu)
{
	struct exit_event event;

	exit_decode(vcpu->run, vcpu->run_bytes, &vcpu->machine->ranges, &event);
	if (event.kind == EXIT_INTERRUPTED)
		return true;
	count(&vcpu->counters.exits);
	vcpu->pending = vcpu->run->exit_reason == KVM_EXIT_IO || vcpu->run->exit_reason == KVM_EXIT_MMIO;
	switch (event.kind) {
	case EXIT_HYPERCALL:
		return vcpu_hypercall(vcpu);
	case EXIT_COUNT_READ:
		return count_read(vcpu, event.count);
	case EXIT_DOORBELL:
		return rang(vcpu, event.number);
	case EXIT_WINDOW_WRITE:
		return window_write(vcpu);
	case EXIT_INTERRUPTED:
		return true;
	case EXIT_FATAL:
		guest_lost(vcpu, event.text);
		return false;
	}
	CHECK(false);
}

/* KVM_RUN failed. False: the vCPU is to leave. */
static bool failure_handle(struct vcpu *vcpu, int error)
{
	char text[120];

	if (error == EINTR || error == EAGAIN) {
		/* Before the word is read again; see vcpu.h. */
		immediate_exit_set(vcpu->run, 0);
		return true;
	}
	/* A killed guest has lost its inbox window: whoever touches it ends here. */
	if (machine_state(vcpu->machine) != MACHINE_RUNNING)
		return false;
	snprintf(text, sizeof(text), "KVM_RUN: %s", strerror(error));
	guest_lost(vcpu, text);
	return false;
}

static bool enter(struct vcpu *vcpu)
{
	int result = ioctl(vcpu->fd, KVM_RUN, 0);
	int error = errno;

	vcpu->pending = false;
	return result < 0 ? failure_handle(vcpu, error) : exit_handle(vcpu);
}

/* Lets KVM finish the instruction that exited, without entering the guest. False: the vCPU is to leave. */
static bool pending_complete(struct vcpu *vcpu)
{
	for (int i = 0; vcpu->pending; i++) {
		if (i == MAX_COMPLETIONS) {
			guest_lost(vcpu, "an I/O instruction that does not end");
			return false;
		}
		immediate_exit_set(vcpu->run, 1);
		if (!enter(vcpu))
			return false;
	}
	return true;
}

/* HLT never comes back to user space: KVM knows whether the guest is in it, and keeps it so. */
static bool is_halted(struct vcpu *vcpu)
{
	struct kvm_mp_state state;

	return ioctl(vcpu->fd, KVM_GET_MP_STATE, &state) == 0 && state.mp_state == KVM_MP_STATE_HALTED;
}

/* False: the vCPU is to leave. */
static bool park(struct vcpu *vcpu)
{
	if (!pending_complete(vcpu) ||
	    stop_park(&vcpu->machine->group, &vcpu->stop, is_halted(vcpu)) != STOP_RUN)
		return false;
	/* Who is hurrying us is through when it lets go of the lock; the next one sees that we run. */
	pthread_mutex_lock(&vcpu->stop.kick_lock);
	pthread_mutex_unlock(&vcpu->stop.kick_lock);
	return true;
}

/* No guest runs with a priority that was lent: see priority.h. */
static void give_back(struct vcpu *vcpu)
{
	if (__atomic_load_n(&vcpu->lent, __ATOMIC_SEQ_CST) == 0)
		return;
	__atomic_store_n(&vcpu->lent, 0, __ATOMIC_SEQ_CST);
	priority_give_back();
}

static void loop(struct vcpu *vcpu)
{
	const struct stop_group *group = &vcpu->machine->group;

	for (;;) {
		if (stop_wanted(group, &vcpu->stop) && !park(vcpu))
			return;
		give_back(vcpu);
		if (vcpu->machine->window_hook != NULL)
			vcpu->machine->window_hook(vcpu);
		if (!enter(vcpu))
			return;
	}
}

static void note_cpu_time(struct vcpu *vcpu)
{
	struct timespec time;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0)
		vcpu->final_cpu_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *vcpu_thread(void *argument)
{
	struct vcpu *vcpu = argument;
	sigset_t kicks;
	char name[16];

	/* Here as well as by pthread_create, which may store it after the first kick. */
	pthread_mutex_lock(&vcpu->stop.kick_lock);
	vcpu->thread = pthread_self();
	vcpu->borrower = priority_borrower();
	pthread_mutex_unlock(&vcpu->stop.kick_lock);
	snprintf(name, sizeof(name), "vcpu%u.%.8s", vcpu->index, vcpu->machine->name);
	pthread_setname_np(pthread_self(), name);
	run_of_thread = vcpu->run;
	sigemptyset(&kicks);
	sigaddset(&kicks, kick_signal());
	pthread_sigmask(SIG_UNBLOCK, &kicks, NULL);
	if (vcpu->machine->handlers.began != NULL)
		vcpu->machine->handlers.began(vcpu->machine->owner);
	loop(vcpu);
	run_of_thread = NULL;
	note_cpu_time(vcpu);
	stop_gone(&vcpu->stop);
	return NULL;
}

/* The (first_core + index)th core that this process may use, modulo their number. */
static void pin(pthread_attr_t *attributes, uint32_t nth)
{
	cpu_set_t allowed, one;
	int n_allowed;

	if (sched_getaffinity(getpid(), sizeof(allowed), &allowed) < 0)
		return;
	n_allowed = CPU_COUNT(&allowed);
	nth %= (uint32_t)n_allowed;
	for (int core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, &allowed) || nth-- != 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		pthread_attr_setaffinity_np(attributes, sizeof(one), &one);
		return;
	}
}

int vcpu_start(struct vcpu *vcpu)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (!stop_start(&vcpu->stop))
		return 0;
	pthread_attr_init(&attributes);
	pin(&attributes, vcpu->machine->first_core + vcpu->index);
	int error = pthread_create(&thread, &attributes, vcpu_thread, vcpu);
	pthread_attr_destroy(&attributes);
	if (error != 0) {
		stop_gone(&vcpu->stop);
		return -error;
	}
	pthread_mutex_lock(&vcpu->stop.kick_lock);
	vcpu->thread = thread;
	pthread_mutex_unlock(&vcpu->stop.kick_lock);
	vcpu->to_join = true;
	return 0;
}
