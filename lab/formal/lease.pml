/* The lease protocol: callers, workers, a recoverer and an operator around one store.
 *
 * Each operation of the store is one d_step, as each is one transaction. Time is abstracted: a
 * lease may end at any moment after it was given, which covers a worker that is paused for any
 * while, a slow network and a clock that is wrong. What travels may be lost on its way there, lost
 * on its way back, or delivered a second time at any later moment. The number of such faults is
 * bounded by FAULTS, so that "every job ends" can hold: it is promised once faults cease.
 *
 * Ghosts (g_*) are what an observer knows and the protocol does not look at: they say which lease
 * is truly the valid one. README.md maps every action to the operation of the code.
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef JOBS
#define JOBS 1
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef BEATS
#define BEATS 1   /* heartbeats and saves of one attempt: a handler does not run for ever */
#endif
#ifndef RELEASES
#define RELEASES 1 /* attempts given back uncounted: workers are not stopped for ever */
#endif

mtype = { absent, ready, running, done, dead, cancelled };   /* states of a job */
mtype = { succeed, fail, release, beat, save };              /* what a worker asks for */
mtype = { refused, accepted, repeated };                     /* what it is told */
mtype = { idle, at_work, settling };                         /* where a worker stands */

mtype st[JOBS] = absent;
byte tok[JOBS];        /* the token of the last lease: here its version, so never the same */
bool live[JOBS];       /* the lease has not ended by the store's clock */
byte att[JOBS];        /* attempts that count */
byte settled[JOBS];    /* the token under which the job was settled last */
byte faults = FAULTS;
byte releases = RELEASES;

byte g_tok[JOBS];      /* the lease that was given last, counted apart from the protocol */
bool g_live[JOBS];     /* it is valid */
byte g_starts[JOBS];   /* attempts that were started and not given back */
byte g_done[JOBS];     /* successes that were recorded */
bool g_acked[JOBS];    /* the caller was told that the job is stored */

chan late = [2] of { mtype, byte, byte, byte };   /* what went astray: kind, job, token, ghost */

#define ENDED(j) (st[j] == done || st[j] == dead || st[j] == cancelled)

/* Who may write. The planted bugs are the guards that a store could forget. */
#if defined(BUG_TOKEN_IGNORED)
#define OWNS(j, t) (st[j] == running && live[j])
#elif defined(BUG_EXPIRY_IGNORED)
#define OWNS(j, t) (st[j] == running && tok[j] == t)
#elif defined(BUG_CANCEL_KEEPS_LEASE)
#define OWNS(j, t) (tok[j] == t && live[j])
#elif defined(BUG_REPEAT_COUNTS)
#define OWNS(j, t) ((st[j] == running && tok[j] == t && live[j]) || settled[j] == t)
#else
#define OWNS(j, t) (st[j] == running && tok[j] == t && live[j])
#endif

inline end_lease(j) {
    live[j] = false;
    g_live[j] = false
}

inline end_attempt(j) {
    if
    :: att[j] >= ATTEMPTS -> st[j] = dead
    :: else -> st[j] = ready
    fi
}

/* settle, heartbeat, save: the only writes to a running job. */
inline write(kind, j, t, g, answer) {
    d_step {
        if
        :: OWNS(j, t) ->
            assert(g_live[j] && g_tok[j] == g);      /* nothing is written under a lease that is over */
            answer = accepted;
            if
            :: kind == beat || kind == save -> skip
            :: else ->
                end_lease(j);
                settled[j] = t;
                if
                :: kind == succeed -> st[j] = done; g_done[j]++; assert(g_done[j] <= 1)
                :: kind == fail -> end_attempt(j)
                :: kind == release -> st[j] = ready; att[j]--; g_starts[j]--
                fi
            fi
        :: else ->
#ifdef BUG_HEARTBEAT_REVIVES
            if
            :: kind == beat && st[j] == running && tok[j] == t -> live[j] = true
            :: else -> skip
            fi;
#endif
            if
            :: settled[j] == t && kind != beat && kind != save -> answer = repeated
            :: else -> answer = refused
            fi
        fi
    }
}

/* recover: by the process that does chores, and by every claim. */
inline take_back(j) {
    assert(!g_live[j]);                              /* a valid lease is never taken back */
#ifdef BUG_RECOVERY_UNCOUNTED
    att[j]--;
#endif
    end_lease(j);
    end_attempt(j)
}

#ifdef BUG_RECOVERS_TOO_EARLY
#define RUN_OUT(j) (st[j] == running)
#else
#define RUN_OUT(j) (st[j] == running && !live[j])
#endif

inline give(j) {
    assert(!g_live[j]);                              /* at most one valid lease */
    st[j] = running;
    att[j]++;
    live[j] = true;
    g_live[j] = true;
    g_tok[j]++;
    g_starts[j]++;
    assert(att[j] <= ATTEMPTS && g_starts[j] <= ATTEMPTS);
#ifdef BUG_TOKEN_NOT_RENEWED
    tok[j] = 1
#else
    tok[j]++
#endif
}

/* enqueue under a key: stored once, however often it is sent. */
proctype caller(byte j) {
    do
    :: d_step { st[j] == absent -> st[j] = ready }
    :: st[j] != absent -> g_acked[j] = true; break   /* the reply arrives, perhaps to a repeat */
    :: atomic { faults > 0 -> faults-- }             /* request lost: sent again */
    :: atomic { faults > 0 && st[j] == absent -> faults--; st[j] = ready }  /* reply lost */
#ifdef BUG_ACKNOWLEDGED_EARLY
    :: st[j] == absent -> g_acked[j] = true; break
#endif
    od
}

/* One request of a worker, with all that may become of it. Between two of these anything happens. */
inline send() {
    if
    :: write(kind, j, t, g, answer);
        if
        :: answer == accepted && (kind == beat || kind == save) -> phase = at_work
        :: else -> phase = idle                      /* settled, or interrupted and let go of */
        fi
    :: faults > 0 -> faults--; unheard()             /* request lost: unavailable */
    :: faults > 0 -> faults--;                       /* reply lost: unknown */
        write(kind, j, t, g, answer);
        unheard()
    :: faults > 0 && nfull(late) -> faults--;        /* astray: arrives when it likes */
        late!kind, j, t, g;
        unheard()
    fi;
    answer = 0;
    if
    :: phase == settling -> skip
    :: phase == at_work -> kind = 0
    :: phase == idle -> kind = 0; j = 0; t = 0; g = 0; beats = 0
    fi
}

inline unheard() {
    if
    :: kind == beat || kind == save -> phase = at_work    /* the next pass tries again */
    :: else -> phase = settling                           /* the same token, until answered */
    fi
}

inline claim(n) {
    give(n);
    j = n; t = tok[n]; g = g_tok[n]; beats = BEATS;
    if
    :: phase = at_work
    :: faults > 0 -> faults--; j = 0; t = 0; g = 0; beats = 0   /* reply lost: nobody knows */
    fi
}

proctype worker() {
    byte j; byte t; byte g; byte beats;
    mtype kind; mtype answer;
    mtype phase = idle;
end:
    do
    :: atomic { phase == idle && st[0] == ready -> claim(0) }
#if JOBS > 1
    :: atomic { phase == idle && st[1] == ready -> claim(1) }
#endif
#ifndef BUG_NOBODY_RECOVERS
    :: d_step { phase == idle && RUN_OUT(0) -> take_back(0) }
#if JOBS > 1
    :: d_step { phase == idle && RUN_OUT(1) -> take_back(1) }
#endif
#endif
    :: atomic { phase == at_work && beats > 0 -> beats--; kind = beat; send() }
    :: atomic { phase == at_work && beats > 0 -> beats--; kind = save; send() }
    :: atomic { phase == at_work -> kind = succeed; send() }
    :: atomic { phase == at_work -> kind = fail; send() }
    :: atomic { phase == at_work && releases > 0 -> releases--; kind = release; send() }
    :: atomic { phase == settling -> send() }
    :: d_step { phase != idle && faults > 0 ->       /* killed, or let go of by its own clock */
        faults--; phase = idle; kind = 0; j = 0; t = 0; g = 0; beats = 0 }
    od
}

proctype network() {
    mtype kind; byte j; byte t; byte g; mtype answer;
end:
    do
    :: atomic { late??kind, j, t, g -> write(kind, j, t, g, answer);
        kind = 0; j = 0; t = 0; g = 0; answer = 0 }
    od
}

/* The store's clock: a lease that was not extended in time. */
proctype clock() {
end:
    do
    :: d_step { st[0] == running && live[0] -> live[0] = false; g_live[0] = false }
#if JOBS > 1
    :: d_step { st[1] == running && live[1] -> live[1] = false; g_live[1] = false }
#endif
    od
}

proctype recoverer() {
end:
    do
#ifndef BUG_NOBODY_RECOVERS
    :: d_step { RUN_OUT(0) -> take_back(0) }
#if JOBS > 1
    :: d_step { RUN_OUT(1) -> take_back(1) }
#endif
#else
    :: false
#endif
    od
}

proctype operator() {
    if
    :: d_step { st[0] != absent && !ENDED(0) -> st[0] = cancelled;
#ifdef BUG_CANCEL_KEEPS_LEASE
        g_live[0] = false
#else
        end_lease(0)
#endif
      }
    :: true                                                  /* nobody cancels */
    fi
}

/* Time goes on when nothing happens: else a protocol that is stuck would count as one that ended. */
proctype time() {
end:
    do
    :: faults <= FAULTS   /* always; spin refuses a loop that says so */
    od
}

/* A job that has ended stays so; what was acknowledged is there. */
#define IS_KEPT(j) (!g_acked[j] || st[j] != absent)
#define HAS_ONE_END(j) (g_done[j] == 0 || st[j] == done)

init {
    byte i;
    atomic {
        for (i : 0 .. JOBS - 1) { run caller(i) }
        for (i : 1 .. WORKERS) { run worker() }
        run network();
        run clock();
        run time();
        run operator();
#ifndef NO_LEADER
        run recoverer();
#endif
    }
}

#if JOBS > 1
ltl safe { [] (IS_KEPT(0) && IS_KEPT(1) && HAS_ONE_END(0) && HAS_ONE_END(1)) }
ltl ends { <> [] (ENDED(0) && ENDED(1)) }
#else
ltl safe { [] (IS_KEPT(0) && HAS_ONE_END(0)) }
ltl ends { <> [] (ENDED(0)) }
#endif
