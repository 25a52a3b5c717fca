/*
 * What the models share: how many there are of what, a mutex, a futex.
 *
 * The models assume sequential consistency. The code gives it where the protocols need
 * it: every word that two sides use to find each other is written by a locked instruction
 * (xchg, lock add, cmpxchg) or a SEQ_CST store. wait.pml seeds the two places where a plain store would not do.
 * Time does not exist here: no wait may be rescued by its deadline.
 */
#define N_VCPUS 2
#define N_CHANGES 2

/* pthread_mutex: 0 is free, else the owner's _pid + 1. */
#define mutex byte

/* An assertion with a name, which pan prints when it fails. The names are never true. */
#define property(name, e) assert((e) || name)

inline mutex_lock(m)
{
	atomic { m == 0 -> m = _pid + 1 }
}

inline mutex_unlock(m)
{
	atomic { assert(m == _pid + 1); m = 0 }
}
