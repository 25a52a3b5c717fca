/*
 * KVM_RUN as stop.pml needs it: vmm/vcpu.c's signal handler, enter, failure_handle and exit_handle, and what the
 * host kernel does between them. It looks at immediate_exit once, when it starts; it never enters the guest with a
 * signal pending; a signal takes it out of the guest, and then the handler runs before the next statement of the thread.
 */
/* vcpu.c:kick_handler. The thread has left KVM for user space, or is there. */
inline handle_signal(i)
{
	signalled[i] = false;
#if !defined(EMPTY_HANDLER) && !defined(KICK_ONLY)
	immediate_exit[i] = true
#endif
}

active [N_VCPUS] proctype kick_handler()
{
end:	do
	:: atomic { mode[_pid] == IN_USER && signalled[_pid] -> handle_signal(_pid) }
	od
}

/* A handler's short hold of the registry lock: all that matters here is that it can be made to wait. */
inline registry_step()
{
	registry_lock == 0
}

/* KVM_RUN returns: a pending signal's handler runs before the next statement. */
inline return_to_user(i)
{
	mode[i] = IN_USER;
	if
	:: signalled[i] -> handle_signal(i)
	:: else
	fi
}

/* KVM_RUN gave EINTR. vcpu.c:failure_handle */
inline interrupted(i)
{
	return_to_user(i);
#ifndef CLEAR_LATE
	immediate_exit[i] = false
#endif
}

#ifdef NESTED
/* A kick as stop_word.h wants it: gets the thread out of its work, soon. */
inline enter(i)
{
	atomic {
		if
		:: immediate_exit[i]
		:: else -> property(frozen, n_stopped == 0); mode[i] = IN_GUEST
		fi
	};
	atomic { immediate_exit[i] -> mode[i] = IN_USER; immediate_exit[i] = false }
}
#else
/* vcpu.c:enter, exit_handle */
inline enter(i)
{
	atomic {
		/* KVM completes the I/O of the last exit, then looks at immediate_exit, once */
		mode[i] = IN_KVM;
		pending[i] = false;
		if
		:: immediate_exit[i] -> interrupted(i)
		:: else
		fi
	};
	if
	:: mode[i] == IN_USER
	:: mode[i] == IN_KVM ->
		/* with interrupts off: no signal falls between this look and the entry */
		atomic {
			if
			:: signalled[i] -> interrupted(i)
			:: else ->
				property(frozen, n_stopped == 0);
				mode[i] = IN_GUEST;
				if
				:: doing = SPIN
				:: doing = HLT
				:: doing = EXIT_IO
				:: !crashed -> doing = CRASH
				fi
			fi
		};
		if
		:: mode[i] == IN_GUEST ->
			if
			:: atomic { signalled[i] && doing != CRASH -> halted = (doing == HLT); doing = 0; interrupted(i) }
			:: atomic { doing == EXIT_IO -> doing = 0; pending[i] = true; return_to_user(i) };
				/* a hypercall: monitor/mediation.c:mediation_request */
				registry_step()
			:: atomic { doing == CRASH -> doing = 0; return_to_user(i) };
				machine_crashed();
				goto gone
			fi
		:: else
		fi
	fi
}

#endif
