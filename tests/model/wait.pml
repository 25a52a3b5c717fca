/*
 * Waiting and waking: guest/kernel/schedule.c (wait, notify, interrupts, who runs), guest/lib/message.c and ring.[ch]
 * (ask for a notification, look again, sleep), monitor/commit.c:wake (count, then interrupt). design: 4 "Waiting";
 * I1 (what blocked is runnable before the report), I10; rows P8, P12, R5.
 *
 * Processes
 *	domain reader		on vCPU 0
 *	domain writer		on vCPU 1. It sends N_MESSAGES to the reader through a ring of one cell: both have to wait
 *	domain third		with -DSHARED (then one message is enough): on vCPU 0 too, so that one interrupt has to wake
 *				two, and a notification can come from the same vCPU. Here both halves of a count are
 *				read in one step
 *	kernel(c)		the kernel of vCPU c: system calls, interrupts at any moment in ring 3 and in HLT, never in ring 0
 *	loop			2 changes. The first or the second or none cuts the reader's flow, the second cuts what the third
 *				domain waits for. A stop is a stretch in which a vCPU makes no step and keeps its HLT and its pending
 *				interrupt: every interleaving without a stop is one with --stop=none, and those include the others
 *
 * Properties
 *	end states	no wake-up is lost: waits have no time-out here, and every domain comes to its end
 *	runnable	assert: when a change is reported, a domain that lost a flow is not asleep: it runs, or its
 *			vCPU has the interrupt to take
 *	accounting	assert: n_runnable is the number of runnable domains, and who runs is runnable
 *	delivered	assert: without a cut every message arrives
 *	all_end		all domains end (weak fairness; with -DSHORT, one message)
 *
 * Faults, each found
 *	WAIT_WITHOUT_COUNT	SYS_WAIT sleeps whatever the event count is
 *	LOOK_BEFORE_BLOCKED	the kernel compares the counts before it says BLOCKED: what a plain store instead of xchg allows
 *	LOOK_BEFORE_WANTS	the library's last look comes before wants_message is visible: the same in ring.c:ring_want_message
 *	WAKE_BEFORE_COUNT	the host interrupts first and counts afterwards
 *	NO_WAKE			a cut patches records and wakes nobody
 *
 * Counts are bits here. Both halves of an event count only grow, so the sum still equals `seen` exactly if neither half has grown
 * since it was read: a bit per half says so. A ticket is new for each wait, so it is answered or not: three values.
 *
 * Left out: time-outs, timer ticks (which only change who runs), domains of two guests (doorbell.pml), system calls other than these.
 */
#include "common.pml"

#if defined(SHARED) || defined(SHORT)
#define N_MESSAGES 1
#else
#define N_MESSAGES 2
#endif
#define RING_CELLS 1

#define READER 0
#define WRITER 1
#define THIRD 2
#define vcpu_of(d) ((d) == WRITER)

/* struct kernel_domain, call_page.events, domain_page.host_events */
mtype = { RUNNABLE, BLOCKED, DEAD };
mtype state[3] = RUNNABLE;
/* Has it grown since the domain read it? */
bool events[3], host_events[3];

/* A vCPU: who has it, its ring, its pending VECTOR_WAKE. */
mtype = { RING3, RING0, HALT };
mtype mode[N_VCPUS] = RING3;
byte current[N_VCPUS], n_runnable[N_VCPUS];
bool irr[N_VCPUS];

/* The system call that is being made, and whom SYS_NOTIFY means. */
mtype = { SYS_WAIT, SYS_NOTIFY, SYS_EXIT };
mtype call[N_VCPUS];
byte peer[N_VCPUS];

/* The record of each domain's slot, and the ring between writer and reader. */
bool is_cut[3];
byte commit, read;

/* 0: nobody waits. UNANSWERED: a ticket that the peer has not seen yet. */
#define UNANSWERED 1
#define ANSWERED 2
byte wants_message, wants_room;

bool over;
hidden byte runnable, accounting, delivered;

#define running(d) (mode[vcpu_of(d)] == RING3 && current[vcpu_of(d)] == d)

/* ---- domains ---- */

inline system_call(d, number, value)
{
	atomic { running(d) -> call[vcpu_of(d)] = number; peer[vcpu_of(d)] = value; mode[vcpu_of(d)] = RING0 }
}

/* guest/lib/domain.h:events_seen. Two loads, of counts that only grow. */
inline events_seen(d)
{
#ifdef SHARED
	atomic { running(d) -> events[d] = false; host_events[d] = false }
#else
	atomic { running(d) -> events[d] = false };
	atomic { running(d) -> host_events[d] = false }
#endif
}

inline leave(d)
{
	atomic {
		running(d) -> result = 0;
		call[vcpu_of(d)] = SYS_EXIT;
		mode[vcpu_of(d)] = RING0
	}
}

/* What a look gives. */
mtype = { NOTHING, TAKEN, REVOKED };

/* ring.h:ring_receive, ring_advance */
inline receive()
{
	if
	:: atomic { running(READER) && is_cut[READER] -> result = REVOKED }
	:: atomic { running(READER) && !is_cut[READER] && commit == taken -> result = NOTHING }
	:: atomic { running(READER) && !is_cut[READER] && commit != taken -> taken++; read = taken; result = TAKEN };
		if
		:: atomic { running(READER) && wants_room == UNANSWERED -> wants_room = ANSWERED };
			system_call(READER, SYS_NOTIFY, WRITER)
		:: running(READER) && wants_room != UNANSWERED
		fi
	fi
}

/* message.c:channel_receive, receive_blocking */
active proctype reader()
{
	byte taken;
	mtype result;

	do
	:: taken < N_MESSAGES && result != REVOKED ->
		receive();
		do
		:: result == NOTHING ->
			events_seen(READER);
#ifdef LOOK_BEFORE_WANTS
			receive();
			atomic { running(READER) -> wants_message = UNANSWERED };
#else
			/* ring.c:ring_want_message: an exchange */
			atomic { running(READER) -> wants_message = UNANSWERED };
			receive();
#endif
			if
			:: result == NOTHING -> system_call(READER, SYS_WAIT, 0)
			:: else
			fi
		:: else -> break
		od;
		/* ring_unwant */
		atomic { running(READER) -> wants_message = 0 }
	:: else -> break
	od;
	property(delivered, taken == N_MESSAGES || is_cut[READER]);
	leave(READER)
}

/* ring.h:ring_send, ring_commit; ring.c:ring_find_room */
inline send()
{
	if
	:: atomic { running(WRITER) && is_cut[WRITER] -> result = REVOKED }
	:: atomic { running(WRITER) && !is_cut[WRITER] && sent - read >= RING_CELLS -> result = NOTHING }
	:: atomic { running(WRITER) && !is_cut[WRITER] && sent - read < RING_CELLS -> sent++; commit = sent; result = TAKEN };
		if
		:: atomic { running(WRITER) && wants_message == UNANSWERED -> wants_message = ANSWERED };
			system_call(WRITER, SYS_NOTIFY, READER)
		:: running(WRITER) && wants_message != UNANSWERED
		fi
	fi
}

/* message.c:channel_send, send_blocking */
active proctype writer()
{
	byte sent;
	mtype result;

	do
	:: sent < N_MESSAGES && result != REVOKED ->
		send();
		do
		:: result == NOTHING ->
			events_seen(WRITER);
			/* ring.c:ring_want_room: an exchange */
			atomic { running(WRITER) -> wants_room = UNANSWERED };
			send();
			if
			:: result == NOTHING -> system_call(WRITER, SYS_WAIT, 0)
			:: else
			fi
		:: else -> break
		od;
		atomic { running(WRITER) -> wants_room = 0 }
	:: else -> break
	od;
	property(delivered, sent == N_MESSAGES || is_cut[WRITER]);
	leave(WRITER)
}

#ifdef SHARED
/* Notifies the reader for nothing, then waits for the end of its own flow: channel_poll with POLL_END. */
active proctype third()
{
	mtype result;

	system_call(THIRD, SYS_NOTIFY, READER);
	do
	:: events_seen(THIRD);
	   if
	   :: running(THIRD) && is_cut[THIRD] -> break
	   :: running(THIRD) && !is_cut[THIRD] -> system_call(THIRD, SYS_WAIT, 0)
	   fi
	od;
	leave(THIRD)
}
#endif

/* ---- the kernel: interrupts are off in all of it ---- */

/* Both halves of the domain's event count: do they differ from `seen`? */
inline count(d)
{
#ifdef SHARED
	grown = events[d] || host_events[d]
#else
	grown = events[d];
	grown = grown || host_events[d]
#endif
}

/* schedule.c:domain_wake */
inline domain_wake(d)
{
	state[d] = RUNNABLE;
	n_runnable[c]++
}

inline check_accounting()
{
	property(accounting, n_runnable[0] == (state[READER] == RUNNABLE) + (state[THIRD] == RUNNABLE) || c != 0);
	property(accounting, n_runnable[1] == (state[WRITER] == RUNNABLE) || c != 1)
}

/* schedule.c:schedule, switch_to, idle (STI; HLT) */
inline schedule()
{
	atomic {
		grown = false; me = 0; call[c] = 0; peer[c] = 0;
		check_accounting();
		if
		:: n_runnable[c] == 0 -> mode[c] = HALT
		:: else ->
			if
			:: c == 0 && current[0] == READER && state[THIRD] == RUNNABLE -> current[0] = THIRD
			:: c == 0 && current[0] == THIRD && state[READER] == RUNNABLE -> current[0] = READER
			:: else
			fi;
			property(accounting, state[current[c]] == RUNNABLE);
			mode[c] = RING3
		fi
	}
}

inline resume_domain()
{
	atomic { grown = false; me = 0; call[c] = 0; peer[c] = 0; check_accounting(); property(accounting, state[current[c]] == RUNNABLE); mode[c] = RING3 }
}

/* schedule.c:domain_wait. me runs. */
inline domain_wait()
{
#ifndef WAIT_WITHOUT_COUNT
	count(me);
	if
	:: grown -> goto resume
	:: else
	fi;
#endif
#ifdef LOOK_BEFORE_BLOCKED
	count(me);
#endif
	/* xchg */
	state[me] = BLOCKED;
#if !defined(WAIT_WITHOUT_COUNT) && !defined(LOOK_BEFORE_BLOCKED)
	count(me);
#endif
#ifndef WAIT_WITHOUT_COUNT
	if
	:: grown -> state[me] = RUNNABLE; goto resume
	:: else
	fi;
#endif
	n_runnable[c]--
}

/* schedule.c:domain_notify */
inline domain_notify(d)
{
	/* lock add */
	events[d] = true;
	if
	:: state[d] != BLOCKED
	:: state[d] == BLOCKED ->
		if
		:: atomic { vcpu_of(d) != c -> irr[vcpu_of(d)] = true }
		:: atomic { vcpu_of(d) == c -> domain_wake(d) }
		fi
	fi
}

inline wake_if_due(d)
{
	if
	:: state[d] == BLOCKED ->
		count(d);
		if
		:: atomic { grown -> domain_wake(d) }
		:: else
		fi
	:: else
	fi
}

/* schedule.c:take_interrupt, wake_due */
inline wake_due()
{
	if
	:: c == 0 -> wake_if_due(READER); wake_if_due(THIRD)
	:: else -> wake_if_due(WRITER)
	fi
}

proctype kernel(byte c)
{
	byte me;
	bool grown;

	do
	:: atomic { call[c] != 0 -> me = current[c] };
		/* call.c:syscall_dispatch */
		if
		:: call[c] == SYS_WAIT -> domain_wait()
		:: call[c] == SYS_NOTIFY -> domain_notify(peer[c]); goto resume
		:: call[c] == SYS_EXIT -> atomic { state[me] = DEAD; n_runnable[c]-- }
		fi;
		schedule();
		goto next;
resume:		resume_domain();
next:		skip
	:: atomic { mode[c] == RING3 && irr[c] -> irr[c] = false; mode[c] = RING0 };
		/* schedule.c:schedule_interrupt: a wake-up preempts, or comes too early in the slice */
		wake_due();
		if
		:: n_runnable[c] > 1 -> schedule()
		:: resume_domain()
		fi
	:: atomic { mode[c] == HALT && irr[c] -> irr[c] = false; mode[c] = RING0 };
		/* schedule.c:schedule_idle_interrupt */
		wake_due();
		schedule()
	:: c == 0 && state[READER] == DEAD && state[THIRD] == DEAD -> break
	:: c == 1 && state[WRITER] == DEAD -> break
	od
}

/* ---- the host ---- */

inline add_event(d)
{
	if
	:: atomic { cut[d] -> host_events[d] = true }
	:: else
	fi
}

/* vmm/machine.c:machine_wake: a level that stays until it is taken */
inline interrupt()
{
	if
	:: atomic { cut[READER] || cut[THIRD] -> irr[0] = true }
	:: else
	fi;
	if
	:: atomic { cut[WRITER] -> irr[1] = true }
	:: else
	fi
}

/* monitor/commit.c:wake: first every count, then one interrupt for each vCPU */
inline wake()
{
#ifdef WAKE_BEFORE_COUNT
	interrupt();
#endif
	add_event(READER);
	add_event(WRITER);
	add_event(THIRD);
#ifndef WAKE_BEFORE_COUNT
	interrupt()
#endif
}

#define is_awake(d) (!cut[d] || state[d] != BLOCKED || irr[vcpu_of(d)] || mode[vcpu_of(d)] == RING0)

active proctype loop()
{
	byte change;
	bool cut[3];

	atomic {
		current[0] = READER; n_runnable[0] = 1;
#ifdef SHARED
		n_runnable[0] = 2;
#else
		state[THIRD] = DEAD;
#endif
		current[1] = WRITER; n_runnable[1] = 1;
		run kernel(0); run kernel(1)
	};
	do
	:: change < N_CHANGES ->
		atomic {
			change++;
			cut[THIRD] = (change == N_CHANGES);
			if
			:: !is_cut[READER] -> cut[READER] = true; cut[WRITER] = true
			:: true
			fi
		};
		/* commit.c:patch */
		if :: atomic { cut[WRITER] -> is_cut[WRITER] = true } :: else fi;
		if :: atomic { cut[READER] -> is_cut[READER] = true } :: else fi;
		if :: atomic { cut[THIRD] -> is_cut[THIRD] = true } :: else fi;
#ifndef NO_WAKE
		wake();
#endif
		atomic {
			property(runnable, is_awake(READER) && is_awake(WRITER) && is_awake(THIRD));
			cut[READER] = false; cut[WRITER] = false; cut[THIRD] = false
		}
	:: else -> break
	od;
	state[READER] == DEAD && state[WRITER] == DEAD && state[THIRD] == DEAD;
	over = true
}

ltl all_end { <> over }
