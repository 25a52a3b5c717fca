/*
 * Doorbells between two guests: monitor/bells.c (bind, publish, unbind) and monitor/commit.c against guest/kernel/call.c (notify)
 * and schedule.c (hear, wait), guest/lib/ring.c (ask for a notification, look again). design: 4 "Waiting"; I10; rows P12, H4.
 *
 * Processes
 *	sender(c)	a domain of guest A: commits N_MESSAGES to channel c, and rings where the peer has asked for it
 *	receiver(c)	a domain of guest B, on a vCPU of its own; it sleeps whenever there is nothing
 *	handler		vCPU 0 of guest B, which takes the doorbell
 *	opener		a vCPU thread of B in an accept: it opens channel 1; channel 0 stands at the start
 *	loop		a change: it cuts channel 0 or 1 or nothing, settles the doorbell, reports. With -DBOTH_OPEN two changes, and
 *			both channels stand at the start and are cut in this order
 *
 * One doorbell serves both channels. Binding either half may fail.
 *
 * Properties
 *	end states	no wake-up is lost: every receiver gets all messages, or learns of its cut; waits have no time-out
 *	unheard		assert: once the report of the last cut is given, and until a channel is opened, no ring raises an interrupt
 *	delivered	assert: without a cut every message arrives
 *	balanced	assert: at the end nothing is bound that no channel needs
 *
 * Faults, each found
 *	UNBIND_WITH_ANY		a cut unbinds the line although another channel needs it (without the ring it would be an exit)
 *	PUBLISH_BEFORE_BIND	the record says NOTIFY before anybody is counted, marked and bound
 *	MARK_LAST		the domain is marked after the record says NOTIFY
 *	REPORT_BEFORE_UNBIND	the report is given first
 *	RING_UNHEARD		the ring half is bound although the line could not be
 *	NO_WAKE			a cut wakes nobody
 *
 * Counts are bits, as in wait.pml, and their two halves one: that model has both. Left out: a full ring, the way back (it is another doorbell), closing.
 */
#include "common.pml"

#ifdef BOTH_OPEN
#define N_CUTS 2
#else
#define N_CUTS 1
#endif
#define N_MESSAGES 1
#define N_CHANNELS 2

/* Records: of the sender's end and of the receiver's. */
mtype = { NONE, OPEN, CUT };
mtype out_word[N_CHANNELS] = NONE, in_word[N_CHANNELS] = NONE;

/* The ring, and who has asked to be notified. */
#define UNANSWERED 1
#define ANSWERED 2
byte commit[N_CHANNELS], wants[N_CHANNELS];

/* The receiver's domain: has its count grown since it looked; its kernel's word; an interrupt of its vCPU. */
bool events[N_CHANNELS], blocked[N_CHANNELS], interrupt[N_CHANNELS];

/* Under the registry lock. */
mutex registry;
byte n_ringers, n_hearers;
bool ring_bound, line_bound;

/* doorbell_page: also read by B's kernel. */
bool marked[N_CHANNELS];

bool pending; /* VECTOR_DOORBELL at vCPU 0 */
bool quiet;   /* nobody may be rung for */
bool over[N_CHANNELS], changed, opened;
hidden byte unheard, delivered, balanced;

/* ---- the host ---- */

/* domain_wake */
inline domain_wake(d)
{
	atomic { events[d] = true; interrupt[d] = true }
}

/* bells.c:bells_rang: a ring that is an exit */
inline bells_rang()
{
	mutex_lock(registry);
	if
	:: n_hearers > 0 && marked[0] -> domain_wake(0)
	:: else
	fi;
	if
	:: n_hearers > 0 && marked[1] -> domain_wake(1)
	:: else
	fi;
	mutex_unlock(registry)
}

/* The instruction, and what KVM makes of it. */
inline out()
{
	if
	:: atomic { ring_bound && line_bound -> pending = true; property(unheard, !quiet) }
	:: atomic { ring_bound && !line_bound -> skip }
	:: !ring_bound -> bells_rang()
	fi
}

/* bells.c:bind. Either ioctl may fail. */
inline bind()
{
	if
	:: line_bound -> skip
	:: !line_bound -> line_bound = true
	:: !line_bound -> skip
	fi;
#ifdef RING_UNHEARD
	ring_bound = true
#else
	if
	:: !line_bound -> ring_bound = false
	:: line_bound -> ring_bound = true
	:: line_bound && !ring_bound -> skip
	fi
#endif
}

/* channel_memory.c:channel_publish of a flow that opens */
inline publish_open(c)
{
#ifdef PUBLISH_BEFORE_BIND
	out_word[c] = OPEN;
	in_word[c] = OPEN;
#endif
	atomic { n_ringers++; n_hearers++; quiet = false };
#ifndef MARK_LAST
	marked[c] = true;
#endif
	bind();
	in_word[c] = OPEN;
	out_word[c] = OPEN;
#ifdef MARK_LAST
	marked[c] = true
#else
	skip
#endif
}

/* channel_publish of a cut, then wake */
inline publish_cut(c)
{
	in_word[c] = CUT;
	out_word[c] = CUT;
	atomic { n_ringers--; n_hearers--; marked[c] = false };
#ifdef UNBIND_WITH_ANY
	line_bound = false;
#endif
#ifndef NO_WAKE
	domain_wake(c)
#else
	skip
#endif
}

/* bells.c:bells_settle */
inline settle()
{
	mutex_lock(registry);
	if
	:: atomic { n_ringers == 0 -> ring_bound = false }
	:: n_ringers > 0
	fi;
	if
	:: atomic { n_hearers == 0 -> line_bound = false; registry = 0 }
	:: atomic { n_hearers > 0 -> registry = 0 }
	fi
}

inline report()
{
	atomic { quiet = (n_hearers == 0) }
}

proctype opener()
{
	mutex_lock(registry);
	publish_open(1);
	opened = true;
	mutex_unlock(registry)
}

proctype loop()
{
	byte i, c;

	for (i : 1 .. N_CUTS) {
		if
		:: c = i - 1
#ifndef BOTH_OPEN /* there the channels are alike */
		:: c = 1
#endif
		:: c = N_CHANNELS
		fi;
		mutex_lock(registry);
		if
		:: c < N_CHANNELS && in_word[c] == OPEN -> publish_cut(c)
		:: else
		fi;
		mutex_unlock(registry);
#ifdef REPORT_BEFORE_UNBIND
		report();
		settle()
#else
		settle();
		report()
#endif
	};
	changed = true
}

/* ---- guest A ---- */

/* call.c:notify: the record, then the instruction; anything may come between. */
proctype sender(byte c)
{
	byte sent;

	out_word[c] != NONE;
	do
	:: sent < N_MESSAGES && out_word[c] == OPEN ->
		atomic { sent++; commit[c] = sent };
		if
		:: atomic { wants[c] == UNANSWERED -> wants[c] = ANSWERED };
			if
			:: out_word[c] == OPEN -> out()
			:: else
			fi
		:: else
		fi
	:: else -> break
	od
}

/* ---- guest B ---- */

/* schedule.c:hear */
proctype handler()
{
	byte c;

end_handler:
	do
	:: atomic { pending -> pending = false };
		for (c : 0 .. N_CHANNELS - 1) {
			if
			:: atomic { marked[c] -> events[c] = true };
				if
				:: blocked[c] -> interrupt[c] = true
				:: else
				fi
			:: else
			fi
		};
		c = 0
	od
}

mtype = { NOTHING, TAKEN, REVOKED };

inline look()
{
	atomic {
		if
		:: in_word[c] == CUT -> result = REVOKED
		:: in_word[c] != CUT && commit[c] == taken -> result = NOTHING
		:: in_word[c] != CUT && commit[c] != taken -> taken++; result = TAKEN
		fi
	}
}

/* schedule.c:domain_wait. What came in ring 3 has been taken by then; from here until it sleeps interrupts are off. */
inline wait_events()
{
	atomic { blocked[c] = true; interrupt[c] = false };
	if
	:: atomic { events[c] -> blocked[c] = false }
	:: !events[c] ->
		do
		:: atomic {
			interrupt[c] -> interrupt[c] = false;
			if
			:: events[c] -> blocked[c] = false; break
			:: else
			fi
		}
		od
	fi
}

proctype receiver(byte c)
{
	byte taken;
	mtype result = NOTHING;

	in_word[c] != NONE;
	do
	:: taken < N_MESSAGES && result != REVOKED ->
		look();
		if
		:: result == NOTHING ->
			events[c] = false;
			wants[c] = UNANSWERED;
			look();
			if
			:: result == NOTHING -> wait_events()
			:: else
			fi
		:: else
		fi
	:: else -> break
	od;
	atomic { property(delivered, result == REVOKED || taken == N_MESSAGES); result = 0; taken = 0; over[c] = true }
}

init {
	atomic {
		publish_open(0);
		run sender(0);
		run sender(1);
		run receiver(0);
		run receiver(1);
		run handler();
#ifdef BOTH_OPEN
		publish_open(1);
		opened = true;
#else
		run opener();
#endif
		run loop()
	};
	over[0] && over[1] && changed && opened && registry == 0;
	property(balanced, n_hearers > 0 || (!line_bound && !ring_bound))
}
