/*
 * Connects against changes: monitor/mediation.c (try_connect, pump, answered), monitor/prepare.c and execute.c (gate,
 * plan, commit), monitor/commit.c (raise, mark, verify), policy/avc.c. design: 6 and 7; F2, F8, F10; rows P5, P11, R9.
 *
 * Processes
 *	vcpu_thread(d)	domain d connects N_CONNECTS times, closing what it had before; the handler of the
 *			hypercall decides under the registry lock if the AVC knows, else the domain blocks
 *	loop		monitor/loop.c: in any order it takes kicks, answers of security servers, and the steps of
 *			2 changes. A change may be refused at the end of prepare. It brings a server of its own
 *			(a pushed policy), or not (a mask, enforcing mode): then old questions get answers after it
 * What each of the three policies allows is open: all combinations are looked at.
 *
 * Properties
 *	end states	no deadlock; every connect gets an outcome; no mutex stays locked
 *	gate		assert: a connect is decided under the old number before the gate closes, or under the new one
 *			after it opens, never between
 *	current		assert: by a decision of the policy in force, under its number
 *	complete	assert (commit.c:verify): no open channel without a decision under the new number
 *	one_round	assert (prepare.c:after_decide): with the gate closed the second round of questions is the last
 *	no_old_grant	outside commit no channel is open that the policy in force denies
 *	all_end		changes and connects end (weak fairness; with -DSHORT, one connect each)
 *
 * Faults, each found
 *	NO_GATE			connects are decided while a change is made: a channel escapes the plan
 *	FLUSH_BEFORE_RAISE	a cache that is emptied when the plan is made, where an entry counts whatever its number,
 *				and a number that is raised at commit: an answer between the two stays
 *	TAKE_STALE		avc_insert takes an answer that was asked under another number
 *	STOP_UNDER_LOCK		the stop is waited for under the registry lock, which a handler wants
 * Variant that must pass: FLUSH_AFTER_RAISE, the same cache emptied behind the raise, in one hold of the lock.
 *
 * Left out: members, relays, deadlines, slots. A stop is one step here: not while the vCPU's thread is in a handler (stop.pml).
 */
#include "common.pml"

#ifdef SHORT
#define N_CONNECTS 1
#else
#define N_CONNECTS 2
#endif

#if defined(FLUSH_BEFORE_RAISE) || defined(FLUSH_AFTER_RAISE)
#define avc_known(d) (avc_of[d] != 0)
#else
#define avc_known(d) (avc_of[d] == avc_number) /* policy/avc.c:find_entry */
#endif

/* What the policy in force says of a connect of domain d, and what the one that is being put in force says. */
bool allows[2], next_allows[2];

mutex registry_lock;
bool gate_closed;
byte policy_number = 1, avc_number = 1;
byte avc_of[2]; /* the entry's number; 0: none */
bool avc_allowed[2];

/* struct pending_connect, struct domain_page, struct channel: one of each per domain. */
bool pending[2], asked[2];
mtype = { DENIED, GRANTED };
mtype outcome[2];
bool open[2];
bool planned[2]; /* a plan points at it; one that ends meanwhile is in the graveyard, and dead */

bool kicked; /* registry.c:kick_fd */
bool in_handler[2], stopped[2], ended[2];
bool committing, over;
hidden byte gate, current, complete, one_round;

/*
 * Questions of mediation that are under way at the server in force: the number under which they are asked, for
 * which domains, and what that server is going to say.
 */
chan questions = [4] of { byte, bool, bool, bool, bool };

/* mediation.c:try_connect, grant, deny, conclude */
inline try_connect(d)
{
	if
#ifndef NO_GATE
	:: gate_closed
#else
	:: false
#endif
	:: else ->
		if
		:: avc_known(d) ->
#ifndef NO_GATE
			property(gate, !gate_closed);
#endif
			property(current, avc_of[d] == policy_number && avc_allowed[d] == allows[d]);
			if
			:: avc_allowed[d] -> open[d] = true; outcome[d] = GRANTED
			:: else -> outcome[d] = DENIED
			fi;
			pending[d] = false;
			asked[d] = false
		:: else
		fi
	fi
}

/* vmm/vcpu.c:loop, vmm/hypercall_run.c:vcpu_hypercall, monitor/mediation.c:mediation_request */
active [N_VCPUS] proctype vcpu_thread()
{
	byte n;

	do
	:: n < N_CONNECTS ->
		n++;
		/* The registry lock is taken and given back in one step wherever nothing is waited for between. */
		if
		:: open[_pid] ->
			/* do_close */
			atomic { !stopped[_pid] -> in_handler[_pid] = true };
			atomic {
				registry_lock == 0 -> open[_pid] = false;
				planned[_pid] = false;
				in_handler[_pid] = false
			}
		:: else
		fi;
		/* do_connect */
		atomic { !stopped[_pid] -> in_handler[_pid] = true };
		atomic {
			registry_lock == 0 -> outcome[_pid] = 0;
			pending[_pid] = true;
			try_connect(_pid);
			if
			:: pending[_pid] -> kicked = true
			:: else
			fi;
			in_handler[_pid] = false
		};
		/* guest/lib/connect.c:wait_outcome */
		!stopped[_pid] && outcome[_pid] != 0
	:: else -> break
	od;
	ended[_pid] = true
}

/* mediation.c:advance */
inline advance(d)
{
	if
	:: pending[d] ->
		try_connect(d);
		if
		:: pending[d] && !asked[d] && !gate_closed -> asked[d] = true; ask[d] = true
		:: else
		fi
	:: else
	fi
}

/* mediation.c:mediation_pump */
inline mediation_pump()
{
	atomic {
		registry_lock == 0 -> advance(0);
		advance(1);
		/* decisions_ask */
		if
		:: ask[0] || ask[1] ->
			assert(nfull(questions));
			questions!policy_number, ask[0], ask[1], ask[0] && allows[0], ask[1] && allows[1]
		:: else
		fi;
		ask[0] = false; ask[1] = false
	}
}

/* policy/avc.c:avc_insert */
inline avc_insert(d, under, decision)
{
	if
#ifdef TAKE_STALE
	:: true ->
#else
	:: under == avc_number ->
#endif
		avc_of[d] = avc_number;
		avc_allowed[d] = decision
	:: else /* -ESTALE */
	fi
}

/* mediation.c:answered */
inline answered()
{
	atomic {
		registry_lock == 0 ->
		if :: ask[0] -> avc_insert(0, number, says[0]) :: else fi;
		if :: ask[1] -> avc_insert(1, number, says[1]) :: else fi;
		asked[0] = false; asked[1] = false;
		number = 0; ask[0] = false; ask[1] = false;
		says[0] = false; says[1] = false
	};
	mediation_pump()
}

/* prepare.c:begin_decide, plan.c:plan_questions. Answers of the candidate are under policy_number + 1. */
inline plan_questions()
{
	if :: open[0] -> known[0] = true :: else fi;
	if :: open[1] -> known[1] = true :: else fi
}

/* prepare.c:after_decide, close_gate, make_plan */
inline after_decide()
{
	atomic { registry_lock == 0 -> was_closed = gate_closed; gate_closed = true };
	atomic {
		registry_lock == 0 ->
		if
		:: (open[0] && !known[0]) || (open[1] && !known[1]) ->
#ifndef NO_GATE
			property(one_round, !was_closed);
#endif
			plan_questions()
		:: else ->
			cut[0] = open[0] && !next_allows[0];
			cut[1] = open[1] && !next_allows[1];
			planned[0] = open[0];
			planned[1] = open[1];
#ifdef FLUSH_BEFORE_RAISE
			avc_of[0] = 0;
			avc_of[1] = 0;
#endif
			stage = EXPLAIN
		fi;
		was_closed = false
	}
}

/* commit.c:raise_number */
inline raise_number()
{
	avc_number++;
	policy_number++;
	allows[0] = next_allows[0]; allows[1] = next_allows[1];
#ifndef FLUSH_BEFORE_RAISE
	/* As avc.c has it, entries of another number are no entries; forgetting them here gives fewer states */
	avc_of[0] = 0; avc_of[1] = 0;
	avc_allowed[0] = false; avc_allowed[1] = false;
#endif
	if :: known[0] -> avc_insert(0, policy_number, allows[0]) :: else fi;
	if :: known[1] -> avc_insert(1, policy_number, allows[1]) :: else fi
}

/* commit.c:mark. A channel that has ended meanwhile is in the graveyard. */
inline mark(d)
{
	if
	:: cut[d] && planned[d] -> open[d] = false
	:: else
	fi
}

/* execute.c:carry_out */
inline carry_out()
{
	if
	:: cut[0] || cut[1] -> stops = true
	:: true
	fi;
#ifdef STOP_UNDER_LOCK
	mutex_lock(registry_lock);
#endif
	if
	:: stops -> /* vmm/stop.c:stop_groups */
		atomic { !in_handler[0] -> stopped[0] = true };
		atomic { !in_handler[1] -> stopped[1] = true }
	:: else
	fi;
#ifndef STOP_UNDER_LOCK
	mutex_lock(registry_lock);
#endif
	/* commit.c:commit_apply */
	atomic { committing = true; assert(gate_closed); raise_number() };
	atomic { mark(0); mark(1) };
	/* commit.c:verify */
	atomic {
		property(complete, !open[0] || (known[0] && allows[0]));
		property(complete, !open[1] || (known[1] && allows[1]));
		committing = false;
		mutex_unlock(registry_lock)
	};
	/* resume */
	atomic { stopped[0] = false; stopped[1] = false; stops = false };
	atomic { registry_lock == 0 -> gate_closed = false }
}

/* change.c:change_release. A server that is not in force any more is closed: its answers never come, -ECANCELED. */
inline change_release()
{
	if
	:: switched ->
		atomic {
			do
			:: nempty(questions) -> questions?_, _, _, _, _
			:: empty(questions) -> break
			od;
			asked[0] = false; asked[1] = false
		}
	:: else
	fi;
	atomic {
		registry_lock == 0 -> gate_closed = false;
		planned[0] = false; planned[1] = false
	};
	mediation_pump();
	atomic {
		stage = 0; switched = false;
		next_allows[0] = false; next_allows[1] = false;
		known[0] = false; known[1] = false;
		cut[0] = false; cut[1] = false
	}
}

mtype = { DECIDE, EXPLAIN };

inline any_policy(first, second)
{
	atomic {
		if :: first = true :: true fi;
		if :: second = true :: true fi
	}
}

active proctype loop()
{
	byte number, change;
	bool ask[2], says[2], known[2], cut[2], was_closed, stops, switched;
	mtype stage;

	any_policy(allows[0], allows[1]);
	do
	:: kicked -> kicked = false; mediation_pump()
	:: questions?number, ask[0], ask[1], says[0], says[1] -> answered()
	:: change < N_CHANGES && stage == 0 ->
		/* change.c:change_begin */
		change++;
		any_policy(next_allows[0], next_allows[1]);
		atomic { registry_lock == 0 -> plan_questions(); stage = DECIDE }
	:: stage == DECIDE -> after_decide()
	:: stage == EXPLAIN ->
		if
		:: carry_out();
		   if
		   :: switched = true /* a server of its own: commit.c, posture_switch */
		   :: true
		   fi
		:: true /* change.c:change_fail: nothing has changed */
		fi;
		change_release()
	:: change == N_CHANGES && stage == 0 && ended[0] && ended[1] -> break
	od;
	assert(registry_lock == 0 && !gate_closed);
	over = true
}

ltl no_old_grant { [] (committing || ((!open[0] || allows[0]) && (!open[1] || allows[1]))) }
ltl all_end { <> over }
