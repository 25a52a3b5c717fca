/*
 * What a client does before its connect is accepted: guest/lib/ring.c (commit), guest/lib/connect.c (await, close),
 * guest/lib/message.c (wait for an answer), monitor/channel.c (accept, end, the backlog, slots given back), monitor/commit.c
 * (a cut, sweep). design: 4 "Waiting"; I4, I8, I10; rows R2, R5.
 *
 * Processes
 *	client		its connect is granted. It sends one message or none; then it closes, or awaits the accept, or waits for an answer
 *	server		accepts when a connect waits, takes the message, answers it, closes when the client has
 *	loop		cuts the channel at any moment, or never
 * Sleeping is SYS_WAIT with its count (wait.pml): an event since the count was read ends it. Handlers run under the registry lock, and
 * the domains go on meanwhile.
 *
 * Properties
 *	end states	no wake-up is lost: nobody sleeps for ever
 *	unseen		assert: the client looks at the server's outbox only when it is, or was, mapped
 *	delivered	assert: without a cut the server gets the message, also of a client that has closed before the accept, and
 *			accepts a client whose domain has ended
 *	held		assert: a slot that is given back is seen by nobody, and is given back once
 *	returned	assert: when both ends are gone, both slots are given back
 *
 * Faults, each found
 *	NO_SECOND_LOOK	the sender believes the word that it read before it committed: the server may have gone to sleep between
 *	RECORD_FIRST	accept publishes the record before the windows
 *	CLOSE_FORGETS	a client that closes leaves the backlog
 *	CLOSE_FREES	its slot is given back although a server is still to see it
 *	NO_WAKE		accept wakes nobody
 *	NO_SWEEP	a cut leaves behind what a client had left in the backlog
 */
#include "common.pml"

mutex registry_lock;

/* struct slot_record of the client, and what the domains' rings hold. */
bool connecting = true, is_cut, peer_closed;
bool committed, answered, client_wants, server_wants;

/* struct channel: windows are opened and closed together. */
bool in_backlog = true, mapped, client_gone, server_gone, client_freed, server_freed;

/* Event counts: have they grown since they were read? */
bool client_event, server_event;

bool exits;  /* the client's domain ends */
bool awaits; /* the client wants to know of the accept, and no answer */
bool client_ended, server_ended;
hidden byte unseen, delivered, held, returned;

/* monitor/channel.c:release_slot, of both ends; under the lock */
inline release_slots()
{
	if
#ifdef CLOSE_FREES
	:: client_gone && !client_freed && !mapped ->
#else
	:: client_gone && !client_freed && !mapped && !in_backlog ->
#endif
		client_freed = true
	:: else
	fi;
	if
	:: server_gone && !server_freed && !mapped -> server_freed = true
	:: else
	fi
}

/* guest/lib/ring.h:ring_look_for_reader; the kernel's notify */
inline look_for_reader()
{
	atomic {
		property(unseen, mapped || is_cut || peer_closed);
		wants = mapped && server_wants
	};
	if
	:: wants -> server_event = true
	:: else
	fi
}

active proctype client()
{
	bool was_connecting, wants;

	/* ring.c:ring_send_other, commit */
	atomic {
		if
		:: goto close /* without a message */
		:: is_cut -> goto close
		:: !is_cut -> was_connecting = connecting
		fi
	};
	committed = true;
	if
#ifndef NO_SECOND_LOOK
	:: was_connecting && connecting
#else
	:: was_connecting
#endif
	:: else -> look_for_reader()
	fi;
	if
	:: goto close
	:: awaits = true
	:: true
	fi;
	do
	:: atomic { client_event = false; client_wants = true };
		if
		:: atomic { is_cut || peer_closed || (!connecting && (awaits || answered)) -> break }
		:: else -> client_event
		fi
	od;
close:
	/* channel_end of the client, which closes, or whose domain ends */
	if
	:: exits = true
	:: true
	fi;
	mutex_lock(registry_lock);
	atomic {
		client_gone = true;
		if
#ifdef CLOSE_FORGETS
		:: in_backlog -> in_backlog = false; server_gone = true
#else
		:: in_backlog && !committed && !exits -> in_backlog = false; server_gone = true
		:: in_backlog && (committed || exits)
#endif
		:: else -> server_event = true
		fi;
		release_slots();
		client_ended = true;
		mutex_unlock(registry_lock)
	}
}

/* monitor/channel.c:channel_accept */
inline accept()
{
	mutex_lock(registry_lock);
	if
	:: in_backlog ->
		in_backlog = false;
#ifdef RECORD_FIRST
		connecting = false;
#endif
		atomic { property(held, !client_freed && !server_freed); mapped = true };
		connecting = false;
#ifndef NO_WAKE
		client_event = true;
#endif
		has_accepted = true
	:: else
	fi;
	mutex_unlock(registry_lock)
}

active proctype server()
{
	bool has_accepted, taken, was_gone;

	do
	:: atomic { server_event = false };
		if
		:: in_backlog -> accept()
		:: else
		fi;
		if
		:: has_accepted -> break
		:: !has_accepted && (client_gone || is_cut) && !in_backlog -> goto end /* none will come */
		:: !has_accepted && server_event
		:: !has_accepted && in_backlog
		fi
	od;
	do
	:: atomic { server_event = false; server_wants = true };
		was_gone = client_gone;
		if
		:: atomic { is_cut -> break }
		:: atomic { !is_cut && committed && !taken -> taken = true };
			if
			:: awaits
			:: else ->
				answered = true;
				if
				:: client_wants -> client_event = true
				:: else
				fi
			fi
		:: atomic { !is_cut && (!committed || taken) -> skip };
			if
			:: was_gone -> break
			:: else -> server_event
			fi
		fi
	od;
	/* channel_end of the server */
	mutex_lock(registry_lock);
	atomic { server_gone = true; peer_closed = true };
	atomic {
		mapped = false;
		release_slots();
		client_event = true;
		mutex_unlock(registry_lock)
	};
end:
	property(delivered, is_cut || ((has_accepted || !exits) && (!committed || taken)));
	server_ended = true
}

/* A change: channel_publish_cut, then windows, wakes, channel_sweep. */
active proctype loop()
{
	if
	:: mutex_lock(registry_lock);
		if
		:: client_gone && server_gone
		:: else ->
			atomic {
				is_cut = true;
				if
				:: in_backlog -> in_backlog = false; connecting = false; server_gone = true
				:: else
				fi
			};
			mapped = false;
			client_event = true;
			server_event = true;
#ifndef NO_SWEEP
			release_slots()
#else
			if
			:: server_gone && !server_freed -> server_freed = true
			:: else
			fi
#endif
		fi;
		mutex_unlock(registry_lock)
	:: true
	fi;
	client_ended && server_ended;
	property(returned, client_freed && server_freed)
}
