/*
 * What a machine takes of its host: memory and processor time.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "vmm/machine_state.h"

uint32_t machine_n_vcpus(const struct machine *machine)
{
	return machine->layout.n_vcpus;
}

uint64_t machine_ram_bytes(const struct machine *machine)
{
	return machine->layout.ram_bytes;
}

/* The lock is what the thread takes to be gone, so its clock is read only while there is a thread. */
uint64_t machine_cpu_ns(struct machine *machine, uint32_t vcpu)
{
	struct vcpu *it = &machine->vcpu[vcpu];
	struct timespec time = {0, 0};
	uint64_t ns = 0;
	clockid_t clock;

	if (vcpu >= machine->layout.n_vcpus)
		return 0;
	pthread_mutex_lock(&it->stop.kick_lock);
	if (stop_state_of(&it->stop) == STOP_GONE)
		ns = it->final_cpu_ns;
	else if (it->thread && pthread_getcpuclockid(it->thread, &clock) == 0 &&
	         clock_gettime(clock, &time) == 0)
		ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
	pthread_mutex_unlock(&it->stop.kick_lock);
	return ns;
}

int machine_core(struct machine *machine, uint32_t vcpu)
{
	struct vcpu *it = &machine->vcpu[vcpu];
	cpu_set_t set;
	int core = -1;

	CPU_ZERO(&set);
	if (vcpu >= machine->layout.n_vcpus)
		return -1;
	pthread_mutex_lock(&it->stop.kick_lock);
	if (it->thread && stop_state_of(&it->stop) != STOP_GONE)
		(void)pthread_getaffinity_np(it->thread, sizeof(set), &set);
	pthread_mutex_unlock(&it->stop.kick_lock);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&set) == 1 && core < 0; i++)
		core = CPU_ISSET(i, &set) ? i : -1;
	return core;
}
