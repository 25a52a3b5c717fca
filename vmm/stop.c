#include "vmm/stop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vmm/check.h"
#include "vmm/futex.h"
#include "vmm/machine_state.h"

/*
 * Who has not come by then gets the stopper's priority, if that has one to lend (priority.h): not at once,
 * since changing it and changing it back costs more than most of them need.
 */
#define HURRY_AFTER_NS 250000u

#define STATE_MASK ((1u << STOP_STATE_BITS) - 1)
#define PARKED_RECHECK_NS                                                                                    \
	10000000000u /* a parked vCPU has no deadline of its own; it looks again this often */

static enum stop_state state_in(uint32_t word)
{
	return (enum stop_state)(word & STATE_MASK);
}

static uint32_t word_of(uint32_t epoch, enum stop_state state)
{
	return epoch << STOP_STATE_BITS | state;
}

static uint32_t with_state(uint32_t word, enum stop_state state)
{
	return (word & ~STATE_MASK) | state;
}

static bool swap(struct stop_vcpu *vcpu, uint32_t *seen, uint32_t wanted)
{
	return __atomic_compare_exchange_n(&vcpu->word, seen, wanted, false, __ATOMIC_SEQ_CST,
	                                   __ATOMIC_SEQ_CST);
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

enum stop_state stop_state_of(const struct stop_vcpu *vcpu)
{
	return state_in(load(&vcpu->word));
}

const char *stop_state_name(enum stop_state state)
{
	static const char *const names[] = {
		[STOP_NEW] = "new",       [STOP_RUNNING] = "running", [STOP_REQUESTED] = "stop requested",
		[STOP_PARKED] = "parked", [STOP_HALTED] = "halted",   [STOP_LEAVING] = "leaving",
		[STOP_GONE] = "gone",
	};

	return names[state];
}

void stop_group_init(struct stop_group *group, const char *name)
{
	memset(group, 0, sizeof(*group));
	group->name = name;
	pthread_mutex_init(&group->lock, NULL);
}

void stop_group_destroy(struct stop_group *group)
{
	for (uint32_t i = 0; i < group->n_vcpus; i++)
		pthread_mutex_destroy(&group->vcpu[i]->kick_lock);
	pthread_mutex_destroy(&group->lock);
}

void stop_group_add(struct stop_group *group, struct stop_vcpu *vcpu, void (*kick)(struct stop_vcpu *))
{
	pthread_mutexattr_t attributes;

	CHECK(group->n_vcpus < MAX_VCPUS);
	vcpu->word = word_of(0, STOP_NEW);
	vcpu->index = group->n_vcpus;
	vcpu->kick = kick;
	/* The stopper may run first, and the vCPU's thread, which takes the lock too, last. */
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&vcpu->kick_lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	group->vcpu[group->n_vcpus++] = vcpu;
}

/* ---- the vCPU's side ---- */

bool stop_start(struct stop_vcpu *vcpu)
{
	uint32_t word = load(&vcpu->word);

	while (state_in(word) == STOP_NEW)
		if (swap(vcpu, &word, with_state(word, STOP_PARKED)))
			return true;
	return false;
}

bool stop_wanted(const struct stop_group *group, const struct stop_vcpu *vcpu)
{
	return state_in(load(&vcpu->word)) != STOP_RUNNING || load(&group->ended) != 0;
}

/* PARKED or HALTED to RUNNING, unless something happened meanwhile: then false and look again. */
static bool release(struct stop_vcpu *vcpu, uint32_t word)
{
	if (!swap(vcpu, &word, with_state(word, STOP_RUNNING)))
		return false;
	futex_wake_all(&vcpu->word); /* the acknowledgement that resume waits for */
	return true;
}

static void arrive(struct stop_vcpu *vcpu, uint32_t word, bool halted)
{
	if (swap(vcpu, &word, with_state(word, halted ? STOP_HALTED : STOP_PARKED)))
		futex_wake_all(&vcpu->word);
}

enum stop_verdict stop_park(struct stop_group *group, struct stop_vcpu *vcpu, bool halted)
{
	for (;;) {
		/* The word first: see the two columns in stop_word.h. */
		uint32_t word = load(&vcpu->word);
		uint32_t epoch = load(&group->epoch);

		switch (state_in(word)) {
		case STOP_REQUESTED:
			arrive(vcpu, word, halted);
			break;
		case STOP_RUNNING: /* released, or the request was withdrawn */
			return load(&group->ended) != 0 ? STOP_LEAVE : STOP_RUN;
		case STOP_PARKED:
		case STOP_HALTED:
			if ((epoch & 1) == 0)
				release(vcpu, word);
			else
				futex_wait(&group->epoch, epoch, monotonic_ns() + PARKED_RECHECK_NS);
			break;
		case STOP_NEW:
		case STOP_LEAVING:
		case STOP_GONE:
			return STOP_LEAVE;
		}
	}
}

void stop_gone(struct stop_vcpu *vcpu)
{
	pthread_mutex_lock(&vcpu->kick_lock);
	__atomic_store_n(&vcpu->word, word_of(0, STOP_GONE), __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&vcpu->kick_lock);
	futex_wake_all(&vcpu->word);
}

/* ---- the stopper's side ---- */

static void kick(struct stop_vcpu *vcpu)
{
	pthread_mutex_lock(&vcpu->kick_lock);
	if (stop_state_of(vcpu) != STOP_GONE)
		vcpu->kick(vcpu);
	pthread_mutex_unlock(&vcpu->kick_lock);
}

/* Writes the request, or the new epoch where nothing runs. True: it was running and wants a kick. */
static bool request(struct stop_vcpu *vcpu, uint32_t epoch)
{
	uint32_t word = load(&vcpu->word);

	for (;;) {
		switch (state_in(word)) {
		case STOP_RUNNING:
			if (swap(vcpu, &word, word_of(epoch, STOP_REQUESTED)))
				return true;
			break;
		case STOP_NEW:
		case STOP_PARKED:
		case STOP_HALTED:
			if (swap(vcpu, &word, word_of(epoch, state_in(word)))) {
				/* A resume that still waits for this one was overtaken. */
				futex_wake_all(&vcpu->word);
				return false;
			}
			break;
		case STOP_REQUESTED: /* cannot be: the resume before this stop withdrew it */
		case STOP_LEAVING:
		case STOP_GONE:
			return false;
		}
	}
}

/* One more stop; returns a bit per vCPU that has to be kicked. */
static uint32_t group_request(struct stop_group *group)
{
	uint32_t to_kick = 0;

	pthread_mutex_lock(&group->lock);
	CHECK(group->count < UINT32_MAX);
	if (group->count++ == 0) {
		uint32_t epoch = __atomic_add_fetch(&group->epoch, 1, __ATOMIC_SEQ_CST);

		CHECK((epoch & 1) == 1);
		for (uint32_t i = 0; i < group->n_vcpus; i++)
			if (request(group->vcpu[i], epoch))
				to_kick |= 1u << i;
		__atomic_fetch_add(&group->requests, (uint64_t)__builtin_popcount(to_kick), __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&group->lock);
	return to_kick;
}

static void group_kick(struct stop_group *group, uint32_t to_kick)
{
	for (uint32_t i = 0; i < group->n_vcpus; i++)
		if ((to_kick >> i & 1) != 0)
			kick(group->vcpu[i]);
}

bool stop_arrived(enum stop_state state)
{
	return state == STOP_PARKED || state == STOP_HALTED || state == STOP_NEW || state == STOP_GONE;
}

static bool is_gone(enum stop_state state)
{
	return state == STOP_GONE;
}

static bool is_released(enum stop_state state)
{
	return state != STOP_PARKED && state != STOP_HALTED;
}

/* What one vCPU after the other is waited for, and how long. */
struct wait {
	bool (*done)(enum stop_state);
	struct stop_group *const *groups;
	size_t n_groups;
	uint64_t hurry_ns, deadline_ns;
};

/* A vCPU that runs already must not be raised: the lock is what it looks at lent behind (priority.h). */
static void hurry(const struct wait *wait, struct stop_vcpu *vcpu)
{
	if (vcpu->hurry == NULL)
		return;
	pthread_mutex_lock(&vcpu->kick_lock);
	if (!wait->done(stop_state_of(vcpu)))
		vcpu->hurry(vcpu);
	pthread_mutex_unlock(&vcpu->kick_lock);
}

static void hurry_all(struct wait *wait)
{
	for (size_t g = 0; g < wait->n_groups; g++)
		for (uint32_t i = 0; i < wait->groups[g]->n_vcpus; i++)
			hurry(wait, wait->groups[g]->vcpu[i]);
	wait->hurry_ns = wait->deadline_ns;
}

static struct wait wait_begin(struct stop_group *const *groups, size_t n_groups,
                              bool (*done)(enum stop_state), uint64_t deadline_ns)
{
	uint64_t hurry_ns = monotonic_ns() + HURRY_AFTER_NS;

	return (struct wait){done, groups, n_groups, hurry_ns < deadline_ns ? hurry_ns : deadline_ns,
	                     deadline_ns};
}

/* Until the word is another, or perhaps not. False: past the deadline. */
static bool wait_change(struct wait *wait, struct stop_vcpu *vcpu, uint32_t word)
{
	bool last = wait->hurry_ns == wait->deadline_ns;

	if (futex_wait(&vcpu->word, word, wait->hurry_ns) != -ETIMEDOUT)
		return true;
	if (!last)
		hurry_all(wait);
	return !last;
}

/* Waits until the state is what is waited for; returns the last state seen. */
static enum stop_state wait_for(struct wait *wait, struct stop_vcpu *vcpu)
{
	for (;;) {
		uint32_t word = load(&vcpu->word);

		if (wait->done(state_in(word)) || !wait_change(wait, vcpu, word))
			return stop_state_of(vcpu);
	}
}

/* Adds "guest g: vCPU i (state)" to the line of those who are missing. */
static void name_missing(const struct stop_group *group, const struct stop_vcpu *vcpu, enum stop_state state,
                         char *why)
{
	size_t used = strlen(why);

	snprintf(why + used, WHY_BYTES - used, "%sguest %s vCPU %u (%s)",
	         used == 0 ? "past the deadline: " : ", ", group->name, vcpu->index, stop_state_name(state));
}

static uint32_t group_wait_stopped(struct stop_group *group, struct wait *wait, struct stop_report *report,
                                   char *why)
{
	uint32_t n_late = 0;

	for (uint32_t i = 0; i < group->n_vcpus; i++) {
		enum stop_state state = wait_for(wait, group->vcpu[i]);

		if (is_gone(state)) {
			report->n_gone++;
		} else if (stop_arrived(state)) {
			report->n_stopped++;
		} else {
			n_late++;
			name_missing(group, group->vcpu[i], state, why);
		}
	}
	report->n_late += n_late;
	return n_late;
}

int stop_groups(struct stop_group *const *groups, size_t n_groups, uint64_t deadline_ns,
                struct stop_report *report, bool *late, char why[static WHY_BYTES])
{
	struct stop_report counted = {0};
	uint32_t to_kick[MAX_GUESTS];
	struct wait wait;

	CHECK(n_groups <= MAX_GUESTS);
	why[0] = '\0';
	for (size_t i = 0; i < n_groups; i++)
		to_kick[i] = group_request(groups[i]);
	for (size_t i = 0; i < n_groups; i++)
		group_kick(groups[i], to_kick[i]);
	wait = wait_begin(groups, n_groups, stop_arrived, deadline_ns);
	for (size_t i = 0; i < n_groups; i++) {
		uint32_t n_late = group_wait_stopped(groups[i], &wait, &counted, why);

		if (late != NULL)
			late[i] = n_late != 0;
	}
	if (report != NULL)
		*report = counted;
	return counted.n_late != 0 ? -ETIMEDOUT : 0;
}

/* A request that was never honoured is taken back; the kick that went with it does no harm. */
static void withdraw(struct stop_vcpu *vcpu, uint32_t epoch)
{
	uint32_t word = load(&vcpu->word);

	while (state_in(word) == STOP_REQUESTED)
		if (swap(vcpu, &word, word_of(epoch, STOP_RUNNING)))
			return;
}

/* One stop less. -EINVAL: there was none. *epoch: to be waited for with group_wait_running; 0: not. */
static int group_release(struct stop_group *group, uint32_t *epoch)
{
	int error = 0;

	*epoch = 0;
	pthread_mutex_lock(&group->lock);
	if (group->count == 0) {
		error = -EINVAL;
	} else if (--group->count == 0) {
		*epoch = __atomic_add_fetch(&group->epoch, 1, __ATOMIC_SEQ_CST);
		for (uint32_t i = 0; i < group->n_vcpus; i++)
			withdraw(group->vcpu[i], *epoch);
		futex_wake_all(&group->epoch);
	}
	pthread_mutex_unlock(&group->lock);
	return error;
}

/* Waits until none is parked any more, or another stop has come over this resume. */
static int group_wait_running(struct stop_group *group, uint32_t epoch, struct wait *wait, char *why)
{
	int error = 0;

	for (uint32_t i = 0; i < group->n_vcpus; i++) {
		struct stop_vcpu *vcpu = group->vcpu[i];
		uint32_t word = load(&vcpu->word);

		while (!wait->done(state_in(word)) && load(&group->epoch) == epoch) {
			if (!wait_change(wait, vcpu, word)) {
				name_missing(group, vcpu, state_in(word), why);
				error = -ETIMEDOUT;
				break;
			}
			word = load(&vcpu->word);
		}
	}
	return error;
}

int resume_groups(struct stop_group *const *groups, size_t n_groups, uint64_t deadline_ns,
                  char why[static WHY_BYTES])
{
	uint32_t epoch[MAX_GUESTS];
	struct wait wait;
	int result = 0;

	CHECK(n_groups <= MAX_GUESTS);
	why[0] = '\0';
	for (size_t i = 0; i < n_groups; i++) {
		if (group_release(groups[i], &epoch[i]) == 0)
			continue;
		snprintf(why, WHY_BYTES, "guest %s is not stopped", groups[i]->name);
		result = -EINVAL;
	}
	wait = wait_begin(groups, n_groups, is_released, deadline_ns);
	for (size_t i = 0; i < n_groups; i++)
		if (epoch[i] != 0 && group_wait_running(groups[i], epoch[i], &wait, why) != 0)
			result = -ETIMEDOUT;
	return result;
}

/* ---- leaving ---- */

/* True: it was running and wants a kick. */
static bool tell_to_leave(struct stop_vcpu *vcpu, bool stopped_too)
{
	uint32_t word = load(&vcpu->word);

	for (;;) {
		enum stop_state state = state_in(word);
		bool runs = state == STOP_RUNNING || state == STOP_REQUESTED;

		if (state == STOP_LEAVING || state == STOP_GONE || (!stopped_too && state != STOP_RUNNING))
			return false;
		if (swap(vcpu, &word, with_state(word, state == STOP_NEW ? STOP_GONE : STOP_LEAVING))) {
			futex_wake_all(&vcpu->word);
			return runs;
		}
	}
}

void stop_leave(struct stop_group *group, bool stopped_too)
{
	uint32_t to_kick = 0;

	/*
	 *	released vCPU                   this thread
	 *	PARKED -> RUNNING               ended = 1
	 *	looks at ended                  looks at the word
	 *
	 * One of the two sees what the other wrote.
	 */
	__atomic_store_n(&group->ended, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&group->lock);
	for (uint32_t i = 0; i < group->n_vcpus; i++)
		if (tell_to_leave(group->vcpu[i], stopped_too))
			to_kick |= 1u << i;
	/* Same parity, new value: whoever was about to sleep on it does not. */
	__atomic_fetch_add(&group->epoch, 2, __ATOMIC_SEQ_CST);
	futex_wake_all(&group->epoch);
	pthread_mutex_unlock(&group->lock);
	group_kick(group, to_kick);
}

int stop_wait_gone(struct stop_group *group, uint64_t deadline_ns, char why[static WHY_BYTES])
{
	struct wait wait = wait_begin(&group, 1, is_gone, deadline_ns);
	int error = 0;

	why[0] = '\0';
	for (uint32_t i = 0; i < group->n_vcpus; i++) {
		enum stop_state state = wait_for(&wait, group->vcpu[i]);

		if (is_gone(state))
			continue;
		name_missing(group, group->vcpu[i], state, why);
		error = -ETIMEDOUT;
	}
	return error;
}
