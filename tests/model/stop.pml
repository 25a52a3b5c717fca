/*
 * Stop and resume: vmm/stop.c (the state word and the epoch) over vmm/vcpu.c (the signal, immediate_exit,
 * KVM_RUN). design: 5; rows P1, P2, P3, P4, P5, P6, P7, P8.
 *
 * Processes
 *	vcpu_thread(i)	vmm/vcpu.c. In the guest it halts, spins with interrupts off, exits, or crashes: only
 *			a signal gets it out of the first two
 *	kick_handler(i)	the signal handler of that thread: runs at any moment while it is in user space,
 *			and between KVM_RUN's return and the next statement if a signal is pending then
 *	loop		monitor/execute.c:carry_out twice (2 changes), then machine_shutdown
 *	operator	with -DNESTED: a second thread that stops and resumes while the loop does the same once. Here
 *			a kick is what stop_word.h asks for, no signal: the thread gets out of its work
 *
 * Properties
 *	end states	no deadlock, no lost wake-up: no futex has a time-out here, and every thread ends
 *	frozen		assert: nobody enters the guest between stop_groups and resume_groups
 *	arrived		assert: when stop_groups returns, each word says parked, halted, new or gone
 *	out_of_guest	assert: then no vCPU is in the guest. With frozen: none is until the resume (P3)
 *	io_complete	assert: then no vCPU that will run again has a pending I/O exit (P7)
 *	acknowledged	assert: when resume_groups returns, nobody is parked unless another stop has come over it
 *	withdrawn	assert: a first stop never meets a request of the stop before
 *	alive		assert: no thread that has ended is signalled (P4)
 *	stop_ends	a stop that has begun returns, if each thread gets to run (weak fairness)
 *	resume_ends	so does a resume
 *
 * Faults, each found
 *	EMPTY_HANDLER	neither the kick nor the handler sets immediate_exit (vcpu_break_kicks): a
 *			signal between the look at the word and KVM_RUN is lost
 *	CLEAR_LATE	immediate_exit is cleared after the look at the word, before KVM_RUN
 *	NO_EPOCH	words carry no epoch: a late release lets a vCPU run in the next stop (P2)
 *	STOP_UNDER_LOCK	the stopper holds the registry lock, which an exit handler takes (P5)
 * Variants that must pass: KICK_ONLY (the stopper sets immediate_exit, the handler does nothing) and
 * HANDLER_ONLY: each of the two stores is sufficient.
 *
 * Left out: deadlines and what follows them; the signal mask; EINTR of unrelated signals
 * (a kick that comes late looks the same).
 */
#include "common.pml"

#ifdef NESTED
#define N_STOPS 1
#define SIGNAL false
#else
#define N_STOPS N_CHANGES
#define SIGNAL true
#endif

/* enum stop_state. A word is epoch << 3 | state. */
#define NEW 0
#define RUNNING 1
#define REQUESTED 2
#define PARKED 3
#define HALTED 4
#define LEAVING 5
#define GONE 6

#define state_in(w) ((w) & 7)
#ifdef NO_EPOCH
#define word_of(e, s) (s)
#else
#define word_of(e, s) ((e) << 3 | (s))
#endif
#define with_state(w, s) (((w) & ~7) | (s))
#define is_parked(w) (state_in(w) == PARKED || state_in(w) == HALTED)
#define is_gone(w) (state_in(w) == GONE)
#define has_stopped(w) (is_parked(w) || state_in(w) == NEW || is_gone(w))

/* struct stop_vcpu, struct stop_group */
byte word[N_VCPUS];
byte epoch;
bool ended;
byte count;
mutex kick_lock[N_VCPUS];
mutex group_lock;
mutex registry_lock;

/* struct kvm_run, struct vcpu, and the thread as the host kernel sees it */
mtype = { IN_USER, IN_KVM, IN_GUEST };
mtype mode[N_VCPUS] = IN_USER;
mtype = { SPIN, HLT, EXIT_IO, CRASH }; /* what the guest does */
bool immediate_exit[N_VCPUS];
bool signalled[N_VCPUS];
bool pending[N_VCPUS];
bool started[N_VCPUS], thread_ended[N_VCPUS];
bool crashed;

/* For properties: stops that have returned and whose resume has not begun; the loop is in one of the two. */
byte n_stopped;
hidden byte frozen, alive, withdrawn, arrived, out_of_guest, io_complete, acknowledged;
bool stopping, resuming;

#ifdef NESTED
bool operator_over;
#endif

/* Who sleeps on which futex: 0 nobody's, 1 + i: word[i], EPOCH: the group's. */
#define LOOP 2
#define OPERATOR 3
#define EPOCH 9
byte sleeps_on[4];

inline futex_wait(me, futex, value, seen)
{
	atomic {
		if
		:: value == seen -> sleeps_on[me] = futex
		:: else
		fi
	}
	sleeps_on[me] == 0
}

inline futex_wake_all(futex)
{
	atomic {
		if :: sleeps_on[0] == futex -> sleeps_on[0] = 0 :: else fi;
		if :: sleeps_on[1] == futex -> sleeps_on[1] = 0 :: else fi;
		if :: sleeps_on[LOOP] == futex -> sleeps_on[LOOP] = 0 :: else fi;
		if :: sleeps_on[OPERATOR] == futex -> sleeps_on[OPERATOR] = 0 :: else fi
	}
}

/* stop.c:swap. done says whether; if not, seen is the value now. */
inline swap(i, seen, wanted)
{
	d_step {
		if
		:: word[i] == seen -> word[i] = wanted; done = true
		:: else -> seen = word[i]; done = false
		fi
	}
}

/* ---- both sides: a vCPU that crashes tells the others to leave ---- */

/* stop.c:kick, vcpu.c:vcpu_kick */
inline kick(i)
{
	atomic { mutex_lock(kick_lock[i]); runs = !is_gone(word[i]) };
	if
	:: runs ->
#if !defined(EMPTY_HANDLER) && !defined(HANDLER_ONLY)
		immediate_exit[i] = true;
#endif
		/* pthread_kill */
		atomic {
			property(alive, started[i] && !thread_ended[i]);
			signalled[i] = SIGNAL;
			runs = false;
			mutex_unlock(kick_lock[i])
		}
	:: else -> mutex_unlock(kick_lock[i])
	fi
}

/* stop.c:group_kick */
inline group_kick()
{
	if :: to_kick[0] -> kick(0) :: else fi;
	if :: to_kick[1] -> kick(1) :: else fi;
	d_step { to_kick[0] = false; to_kick[1] = false }
}

/* ---- the vCPU's side ---- */

#include "kvm_run.pml"

/* stop.c:tell_to_leave */
inline tell_to_leave(i, stopped_too)
{
	d_step {
		if
		:: state_in(word[i]) == LEAVING || is_gone(word[i]) || (!stopped_too && state_in(word[i]) != RUNNING)
		:: else ->
			to_kick[i] = (state_in(word[i]) == RUNNING || state_in(word[i]) == REQUESTED);
			word[i] = with_state(word[i], (state_in(word[i]) == NEW -> GONE : LEAVING));
			futex_wake_all(1 + i)
		fi
	}
}

/* stop.c:stop_leave */
inline stop_leave(stopped_too)
{
	ended = true;
	mutex_lock(group_lock);
	tell_to_leave(0, stopped_too);
	tell_to_leave(1, stopped_too);
	epoch = epoch + 2;
	atomic { futex_wake_all(EPOCH); mutex_unlock(group_lock) };
	group_kick()
}

/* vmm/machine.c:machine_crashed, monitor/guest.c:on_crash. Once. */
inline machine_crashed()
{
	atomic { done = !crashed; crashed = true };
	if
	:: done -> stop_leave(false); registry_step()
	:: else
	fi
}

proctype vcpu_thread(byte i)
{
	byte seen, seen_epoch;
	bool done, runs, halted;
	bool to_kick[N_VCPUS];
	mtype doing;

loop:	/* vcpu.c:loop; stop.c:stop_wanted */
	if
	:: state_in(word[i]) != RUNNING -> goto park
	:: else
	fi;
	if
	:: ended -> goto park
	:: else
	fi;
	/* the window: window_hook stands here */
#ifdef CLEAR_LATE
	immediate_exit[i] = false;
#endif
	enter(i);
	goto loop;

park:	/* vcpu.c:park, pending_complete */
	do
	:: pending[i] -> immediate_exit[i] = true; enter(i)
	:: else -> break
	od;
	/* stop.c:stop_park */
	do
	:: seen = word[i];
	   if
	   :: atomic { state_in(seen) == REQUESTED -> swap(i, seen, with_state(seen, (halted -> HALTED : PARKED))) };
		/* arrive */
		if
		:: done -> futex_wake_all(1 + i)
		:: else
		fi
	   :: state_in(seen) == RUNNING ->
		d_step { seen = 0; halted = false };
		if
		:: ended -> goto gone
		:: else -> goto loop
		fi
	   :: is_parked(seen) ->
		/* the word was read first: see stop_word.h. The swap compares the epoch in the word */
		if
		:: atomic { (epoch & 1) == 0 -> seen_epoch = 0 };
			/* release */
			swap(i, seen, with_state(seen, RUNNING));
			if
			:: done -> futex_wake_all(1 + i)
			:: else
			fi
		:: atomic { (epoch & 1) == 1 -> seen_epoch = epoch };
			futex_wait(i, EPOCH, epoch, seen_epoch)
		fi
	   :: else -> goto gone
	   fi;
	   d_step { seen = 0; seen_epoch = 0; done = false }
	od;

gone:	/* stop.c:stop_gone */
	atomic { mutex_lock(kick_lock[i]); word[i] = word_of(0, GONE); mutex_unlock(kick_lock[i]) };
	futex_wake_all(1 + i);
	atomic { seen = 0; done = false; halted = false; thread_ended[i] = true }
}

/* ---- the stopper's side ---- */

/* stop.c:request. A loop around compare-exchange is one step, at the exchange that succeeds. */
inline request(i)
{
	d_step {
		if
		:: state_in(word[i]) == RUNNING -> word[i] = word_of(epoch, REQUESTED); to_kick[i] = true
		:: state_in(word[i]) == NEW || is_parked(word[i]) ->
			word[i] = word_of(epoch, state_in(word[i]));
			futex_wake_all(1 + i)
		:: state_in(word[i]) == REQUESTED -> property(withdrawn, false)
		:: else
		fi
	}
}

/* stop.c:wait_for. The futex compares the word with what was seen, so look and sleep are one step. */
inline wait_for(me, i, only_gone)
{
	do
	:: is_gone(word[i]) || (!only_gone && has_stopped(word[i])) -> break
	:: atomic {
		else ->
		sleeps_on[me] = 1 + i
	   };
	   sleeps_on[me] == 0
	od
}

/* stop.c:stop_groups, group_request, group_wait_stopped */
inline stop_groups(me)
{
	atomic { mutex_lock(group_lock); count++ };
	if
	:: count == 1 ->
		atomic { epoch++; assert((epoch & 1) == 1) };
		request(0);
		request(1)
	:: else
	fi;
	mutex_unlock(group_lock);
	group_kick();
	wait_for(me, 0, false);
	wait_for(me, 1, false);
	atomic {
		n_stopped++;
		property(arrived, has_stopped(word[0]) && has_stopped(word[1]));
		property(out_of_guest, mode[0] != IN_GUEST && mode[1] != IN_GUEST);
		property(io_complete, (!pending[0] || is_gone(word[0])) && (!pending[1] || is_gone(word[1])))
	}
}

/* stop.c:withdraw */
inline withdraw(i)
{
	d_step {
		if
		:: state_in(word[i]) == REQUESTED -> word[i] = word_of(my_epoch, RUNNING)
		:: else
		fi
	}
}

/* stop.c:group_wait_running, one vCPU */
inline wait_running(me, i)
{
	seen = word[i];
	do
	:: !is_parked(seen) -> break
	:: else ->
		if
		:: epoch != my_epoch -> break
		:: else
		fi;
		futex_wait(me, 1 + i, word[i], seen);
		seen = word[i]
	od;
	seen = 0
}

/* stop.c:resume_groups, group_release */
inline resume_groups(me)
{
	/* a vCPU that is started during the resume has nothing to acknowledge */
	atomic { n_stopped--; all = started[0] && started[1] };
	atomic { mutex_lock(group_lock); assert(count > 0); count-- };
	if
	:: count == 0 ->
		atomic { epoch++; my_epoch = epoch };
		withdraw(0);
		withdraw(1);
		futex_wake_all(EPOCH)
	:: else
	fi;
	mutex_unlock(group_lock);
	if
	:: my_epoch != 0 ->
		wait_running(me, 0);
		wait_running(me, 1);
		/* the acknowledgement: all run, or another stop or the end has come over it */
		property(acknowledged, !all || epoch != my_epoch || (!is_parked(word[0]) && !is_parked(word[1])))
	:: else
	fi;
	my_epoch = 0; all = false
}

/* vcpu.c:vcpu_start, stop.c:stop_start */
inline vcpu_start(i)
{
	atomic {
		state_in(word[i]) == NEW;
		word[i] = with_state(word[i], PARKED);
		started[i] = true;
		run vcpu_thread(i)
	}
}

active proctype loop()
{
	byte seen, my_epoch, change;
	bool done, runs, all;
	bool to_kick[N_VCPUS];

	/* vmm/machine.c:machine_start */
	vcpu_start(0);
	vcpu_start(1);
	do
	:: change < N_STOPS ->
		change++;
		/* monitor/execute.c:carry_out, choose */
#ifdef STOP_UNDER_LOCK
		mutex_lock(registry_lock);
#else
		registry_step();
#endif
		stopping = true;
		stop_groups(LOOP);
		stopping = false;
		/* commit_apply */
#ifdef STOP_UNDER_LOCK
		mutex_unlock(registry_lock);
#else
		registry_step();
#endif
		resuming = true;
		resume_groups(LOOP);
		resuming = false
	:: else -> break
	od;
	/* vmm/machine.c:machine_shutdown. Nested stops have met before */
#ifdef NESTED
	operator_over;
#endif
	stop_leave(true);
	wait_for(LOOP, 0, true);
	wait_for(LOOP, 1, true)
}

#ifdef NESTED
active proctype operator()
{
	byte seen, my_epoch;
	bool done, runs, all;
	bool to_kick[N_VCPUS];

	started[0] && started[1];
	stop_groups(OPERATOR);
	resume_groups(OPERATOR);
	operator_over = true
}
#endif

ltl stop_ends { [] (stopping -> <> !stopping) }
ltl resume_ends { [] (resuming -> <> !resuming) }
