#include "vmm/priority.h"

#include <sched.h>
#include <unistd.h>

#include "vmm/check.h"

/* Of this thread alone: others that kick (a vCPU whose guest is lost) may not even ask the system. */
static _Thread_local bool raised;

static bool set(pid_t thread, int policy, int priority)
{
	struct sched_param param = {.sched_priority = priority};

	return sched_setscheduler(thread, policy, &param) == 0;
}

bool priority_raise(void)
{
	raised = set(0, SCHED_FIFO | SCHED_RESET_ON_FORK, 1);
	return raised;
}

pid_t priority_borrower(void)
{
	return sched_getscheduler(0) == SCHED_OTHER ? gettid() : 0;
}

bool priority_lend(pid_t thread)
{
	return raised && thread != 0 && set(thread, SCHED_FIFO | SCHED_RESET_ON_FORK, 1);
}

void priority_give_back(void)
{
	/* Without privilege: nobody needs one for less, and the flag that is kept is his own. */
	CHECK(set(0, SCHED_OTHER | SCHED_RESET_ON_FORK, 0));
}
