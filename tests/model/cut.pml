/*
 * Commit against running domains: monitor/commit.c (raise, mark, patch, sever, verify) against guest/lib/ring.[ch]
 * (first look, copy, second look). design: 7; promises I1, I4; rows R1, R2, R3.
 *
 * Processes
 *	domain(d)	one per vCPU. One channel, both ways: domain d sends N_MESSAGES on flow d and receives those of
 *			flow 1 - d. A ring of one cell, so that the second message overwrites the first. A
 *			message is two words, one in the cell's page and one in the bulk area's
 *	loop		2 changes. Each cuts any of the flows that are left, or none, with --stop=all or none. Stopped
 *			means: between any two steps of a domain (stop.pml is about how)
 *
 * Properties
 *	end states	nobody is left behind
 *	whole		assert: no torn message is handed on
 *	none_after	assert: no message that was committed after the cut (the patch of the reader's record) is handed on
 *	at_most_one	assert: after the report at most one is handed on per cut flow: the one already read
 *	tombstone	assert: a load from the inbox after the report reads zero
 *	honest		assert: a peer that keeps the ring's rules is never called broken
 *	selective	assert: "revoked" only of a flow that was cut; one that stays delivers everything (I4)
 *	verified	assert: no open flow without a decision under the new number
 *	no_old_grant	outside commit, a flow that the policy in force does not allow is neither open in the registry
 *			nor in a record, and its bytes are in no window
 *	domains_end	both domains learn how their flows ended (weak fairness; with -DTURNS a domain sends and
 *			receives in turn, else it may look for room for ever and never read)
 *
 * Faults, each found
 *	SEVER_BEFORE_PATCH	windows first, records second: torn messages
 *	NO_SECOND_LOOK		the library does not look at its record after the copy
 *	SKIP_CUT		states change, memory does not (as CONTROL_SKIP_CUT in the tests)
 *
 * Taken as given: when mmap has returned, no vCPU sees the old page (portcullis doctor tests it on the host). The pages
 * of a slot may vanish one by one. Left out: diodes, closing, slots that are used again.
 */
#include "common.pml"

#define N_MESSAGES 2
#define RING_CELLS 1

/* The bits of slot_record.word that matter: the flow is open, else it was cut. */
#define RECORD_OUT 1
#define RECORD_IN 2
#define FLOW_OPEN 0
#define FLOW_CUT 1

/* The registry: flow f goes from domain f to domain 1 - f. */
bool flow[2];
bool allowed[2] = true; /* by the policy in force */
byte policy_number = 1;
bool committing;

/* Record window: of the end of domain d. */
byte record[2] = 3;

/* Outbox of domain d: the cell of flow d and its bulk area, `read` of flow 1 - d. */
byte commit[2], in_cell[2], in_bulk[2];
byte read[2];

/* Inbox of domain d: which pages of the peer's outbox it shows; elsewhere tombstones. */
bool shows_header[2] = true, shows_cells[2] = true, shows_bulk[2] = true;

/* The vCPU of domain d. */
bool stopped[2];

/* For properties. Of flow f: reported cut; the first message committed after the cut; messages handed on since. */
bool reported[2];
byte late[2], handed_since[2];
bool over[2];
hidden byte whole, none_after, at_most_one, tombstone, honest, selective, verified;

/* A step of guest code. */
#define step !stopped[d] ->

/* A load from the inbox. What is gone reads as zero, and stays so (I1), unless another flow grants it. */
inline load(variable, shown, value, granted)
{
	atomic {
		step variable = (shown -> value : 0);
		property(tombstone, !reported[1 - d] || !shown || granted)
	}
}

/* ring.c:break_unless_cut. An honest peer: the record, patched before, says that it was cut. */
inline break_unless_cut(flag)
{
	atomic { step property(honest, (record[d] & flag) == 0) }
}

/* ring.h:ring_send, ring.c:ring_find_room */
inline ring_send()
{
	if
	:: atomic { !stopped[d] && (record[d] & RECORD_OUT) == 0 -> property(selective, flow[d] == FLOW_CUT); sending = false }
	:: !stopped[d] && (record[d] & RECORD_OUT) != 0 ->
		if
		:: sent - peer_read >= RING_CELLS ->
			load(word, shows_header[d], read[1 - d], !reported[d]);
			if
			:: word < peer_read || word > sent -> break_unless_cut(RECORD_OUT)
			:: else -> peer_read = word
			fi;
			word = 0
		:: else
		fi;
		if
		:: sent - peer_read < RING_CELLS ->
			atomic { step in_cell[d] = sent + 1 };
			atomic { step in_bulk[d] = sent + 1 };
			/* ring.h:ring_commit */
			atomic {
				step sent++;
				commit[d] = sent;
				if
				:: late[d] == 0 && (record[1 - d] & RECORD_IN) == 0 -> late[d] = sent
				:: else
				fi;
				sending = sent < N_MESSAGES
			}
		:: else /* ring_no_room: CALL_AGAIN, or revoked at the next look */
		fi
	fi
}

/* The program has the message in its hands. */
inline hand_on()
{
	atomic {
		step property(whole, cell == taken && bulk == taken);
		property(none_after, late[1 - d] == 0 || taken < late[1 - d]);
		if
		:: reported[1 - d] ->
			handed_since[1 - d]++;
			property(at_most_one, handed_since[1 - d] <= 1)
		:: else
		fi;
		cell = 0;
		bulk = 0;
		receiving = taken < N_MESSAGES
	}
}

/* ring.h:ring_receive, ring.c:ring_receive_other */
inline ring_receive()
{
	if
	:: atomic { !stopped[d] && (record[d] & RECORD_IN) == 0 -> property(selective, flow[1 - d] == FLOW_CUT); receiving = false }
	:: !stopped[d] && (record[d] & RECORD_IN) != 0 ->
		load(word, shows_cells[d], commit[1 - d], false);
		if
		:: atomic { word == taken + 1 -> word = 0 };
			/* ring_copy */
			load(cell, shows_cells[d], in_cell[1 - d], false);
			load(bulk, shows_bulk[d], in_bulk[1 - d], false);
			/* the second look */
#ifdef NO_SECOND_LOOK
			word = RECORD_IN;
#else
			atomic { step word = record[d] & RECORD_IN };
#endif
			if
			:: atomic { word == 0 -> cell = 0; bulk = 0 }; /* ring_refuse */
			:: atomic { word != 0 -> word = 0 };
				/* ring_advance */
				atomic { step taken++; read[d] = taken };
				hand_on()
			fi
		:: atomic { word != taken + 1 && word == (taken < RING_CELLS -> 0 : taken + 1 - RING_CELLS) -> word = 0 }
			/* is_empty: CALL_AGAIN */
		:: else -> word = 0; break_unless_cut(RECORD_IN) /* refuse_reading */
		fi
	fi
}

proctype domain(byte d)
{
	byte sent, peer_read, taken, word, cell, bulk;
	bool sending = true, receiving = true;

	do
#ifdef TURNS
	:: sending || receiving ->
		if :: sending -> ring_send() :: else fi;
		if :: receiving -> ring_receive() :: else fi
#else
	:: sending -> ring_send()
	:: receiving -> ring_receive()
#endif
	:: !sending && !receiving -> break
	od;
	property(selective, flow[d] == FLOW_CUT || sent == N_MESSAGES);
	property(selective, flow[1 - d] == FLOW_CUT || taken == N_MESSAGES);
	over[d] = true
}

/* monitor/channel.c:channel_publish_cut, channel_memory.c:channel_publish: one store per end, the server's first */
inline patch()
{
	record[1] = (flow[1] == FLOW_OPEN -> RECORD_OUT : 0) | (flow[0] == FLOW_OPEN -> RECORD_IN : 0);
	record[0] = (flow[0] == FLOW_OPEN -> RECORD_OUT : 0) | (flow[1] == FLOW_OPEN -> RECORD_IN : 0)
}

/* monitor/commit.c:sever_end, channel_memory.c:channel_part. Flows have flowctl: a kept flow out keeps the peer's header. */
inline sever_end(e)
{
	if
	:: flow[1 - e] == FLOW_CUT ->
		shows_cells[e] = false;
		shows_bulk[e] = false;
		if
		:: flow[e] == FLOW_CUT -> shows_header[e] = false
		:: else
		fi
	:: else /* the flow in is open: all of the outbox */
	fi
}

inline sever()
{
	sever_end(0);
	sever_end(1)
}

/* monitor/commit.c:verify */
inline verify()
{
	atomic {
		property(verified, flow[0] == FLOW_CUT || allowed[0]);
		property(verified, flow[1] == FLOW_CUT || allowed[1])
	}
}

active proctype loop()
{
	byte change;
	bool cut[2];

	atomic { run domain(0); run domain(1) };
	do
	:: change < N_CHANGES ->
		change++;
		/* monitor/plan.c:plan_build: what the new policy denies */
		atomic {
			if :: flow[0] == FLOW_OPEN -> cut[0] = true :: true fi;
			if :: flow[1] == FLOW_OPEN -> cut[1] = true :: true fi
		};
		/* execute.c:choose, stop_machines: all or none */
		if
		:: cut[0] || cut[1] -> stopped[0] = true; stopped[1] = true
		:: true
		fi;
		/* commit.c:raise_number, mark: the registry lock is held from here to verify */
		d_step {
			committing = true;
			policy_number++;
			if :: cut[0] -> allowed[0] = false; flow[0] = FLOW_CUT :: else fi;
			if :: cut[1] -> allowed[1] = false; flow[1] = FLOW_CUT :: else fi
		};
#if defined(SEVER_BEFORE_PATCH)
		sever();
		patch();
#elif !defined(SKIP_CUT)
		patch();
		sever();
#endif
		verify();
		d_step {
			committing = false;
			if :: cut[0] -> reported[0] = true :: else fi;
			if :: cut[1] -> reported[1] = true :: else fi;
			cut[0] = false;
			cut[1] = false
		};
		/* resume_machines */
		stopped[0] = false;
		stopped[1] = false
	:: else -> break
	od
}

#define old_grant(f) (!allowed[f] && (flow[f] == FLOW_OPEN || (record[1 - f] & RECORD_IN) || (record[f] & RECORD_OUT) || shows_cells[1 - f] || shows_bulk[1 - f]))

ltl no_old_grant { [] (committing || (!old_grant(0) && !old_grant(1))) }
ltl domains_end { <> (over[0] && over[1]) }
