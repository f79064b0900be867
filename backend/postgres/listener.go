package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aetomala/worklease/internal/bounded"
	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/wake"
)

// ListenerConn is the connection of a [Listener], which makes one call at a time on
// it. Packages pqlisten and pgxlisten have it for two drivers.
type ListenerConn interface {
	// Exec executes a statement that has neither parameters nor an answer. A refusal
	// of the server's offers its SQLSTATE as a method of that name, and leaves the
	// connection usable.
	Exec(ctx context.Context, statement string) error

	// Receive waits for the next notification, also for one that came during Exec,
	// and returns its payload. When ctx ends it returns soon, with an error that
	// matches ctx.Err(), and the connection goes on hearing; any other error is the
	// end of the connection.
	Receive(ctx context.Context) (payload string, err error)

	// Close ends the session. It is the last call, and may come while another has
	// not come back.
	Close() error
}

// Listener hears, over one connection of its own, when leases are freed, and wakes
// those of this process who wait for them. [NewListener] makes one. It is safe for
// concurrent use.
//
// It connects when somebody waits for the first time, and again, with a backoff from
// 100 ms to 10 s, whenever the connection is lost. Then it wakes everybody once, since
// it cannot know what it missed. Meanwhile waiters poll.
//
// The connection must be one of the session's own: behind a pooler in transaction mode
// nothing is heard. The Listener notices, says so in [Listener.Err], and goes on
// trying.
type Listener struct {
	dial  func(context.Context) (ListenerConn, error)
	board wake.Board

	mu     sync.Mutex
	words  *vocabulary          // nil until a Backend has it
	probe  prober               // of the Backend that waited last
	wanted map[string]time.Time // for what somebody waits, and when that was last seen
	stop   context.CancelFunc   // nil until it is started
	closed bool
	err    error

	dialing <-chan dialed // by run alone: a dial that has not come back; nil when there is none

	changed chan struct{} // something is wanted for the first time
	done    chan struct{}
}

// NewListener returns a Listener that connects with dial. It does no I/O.
func NewListener(dial func(ctx context.Context) (ListenerConn, error)) *Listener {
	return &Listener{
		dial:    dial,
		wanted:  map[string]time.Time{},
		changed: make(chan struct{}, 1),
		done:    make(chan struct{}),
		err:     errUnused,
	}
}

var (
	errUnused = errors.New("nobody has waited yet")
	errClosed = errors.New("the listener is closed")
)

// Err returns nil while the Listener hears, else the reason why it does not.
func (l *Listener) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close ends the connection, and returns when its goroutine has ended. Who waits
// then polls. It may be called more than once.
func (l *Listener) Close() {
	l.mu.Lock()
	l.closed, l.err = true, errClosed
	stop := l.stop
	l.mu.Unlock()
	if stop != nil {
		stop()
		<-l.done
	}
}

// want makes l hear of workID, for which somebody waits who has just been refused. An
// attempt that succeeds never comes here, so that it costs nothing.
func (l *Listener) want(workID string, probe prober) {
	if !l.board.Waiting(workID) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probe = probe
	if _, found := l.wanted[workID]; found || l.closed {
		return
	}
	l.wanted[workID] = time.Now()
	if l.stop == nil {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(context.Background())
		go l.run(ctx)
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

const (
	// marks is for how many leases a listener says one by one that somebody waits:
	// as many locks as the server's default max_locks_per_transaction allows each
	// session. Beyond it says so of all leases at once.
	marks = 64

	// linger is how long somebody who waits may not be seen, between two attempts,
	// before nobody does.
	linger = 5 * time.Second

	// tidy is how often that is looked at.
	tidy = 2 * time.Second

	// beat is how often LISTEN is repeated: it shows whether the connection lives, and
	// follows a table that was made anew.
	beat = 10 * time.Second

	// patience bounds each call on a connection.
	patience = 5 * time.Second
)

// run keeps a connection until ctx ends, by Close.
func (l *Listener) run(ctx context.Context) {
	defer close(l.done)
	backoff := pacing.Backoff{Initial: pacing.DefaultInitial, Max: 10 * time.Second, Jitter: pacing.DefaultJitter}
	for failures := 1; ; failures++ {
		l.forget(time.Now()) // nobody else does where no connection can be had
		s := session{Listener: l, marked: map[string]bool{}}
		err := s.hear(ctx)
		if s.heard {
			failures = 1
		}
		l.note(err)
		if pacing.Sleep(ctx, backoff.Wait(failures)) != nil {
			return
		}
	}
}

func (l *Listener) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.err = err
	}
}

// wants returns for what somebody waits, or that it is too much to say one by one.
// have says whether it was before, so that it does not change with every waiter.
func (l *Listener) wants(have bool) (ids map[string]bool, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := marks
	if have {
		most = marks / 2
	}
	if len(l.wanted) > most {
		return nil, true
	}
	ids = make(map[string]bool, len(l.wanted))
	for id := range l.wanted {
		ids[id] = true
	}
	return ids, false
}

// forget drops what nobody has waited for lately.
func (l *Listener) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, seen := range l.wanted {
		switch {
		case l.board.Waiting(id):
			l.wanted[id] = now
		case now.Sub(seen) > linger:
			delete(l.wanted, id)
		}
	}
}

// dialed is what came of a dial.
type dialed struct {
	conn ListenerConn
	err  error
}

// session is one connection of a Listener.
type session struct {
	*Listener
	conn   ListenerConn
	heard  bool
	marked map[string]bool // for what this connection says that somebody waits
	all    bool            // it says so of everything
}

// hear connects and hears until the connection fails or ctx ends.
func (s *session) hear(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return fmt.Errorf("postgres: listener: connect: %w", err)
	}
	defer s.hangUp() //nolint:contextcheck // ctx may have ended
	if err := s.listen(ctx); err != nil {
		return fmt.Errorf("postgres: listener: %w", err)
	}
	if err := s.mark(ctx); err != nil {
		return fmt.Errorf("postgres: listener: mark: %w", err)
	}
	s.heard = true
	s.note(nil)
	s.board.WakeAll()
	if err := s.attend(ctx); err != nil {
		return fmt.Errorf("postgres: listener: %w", err)
	}
	return nil
}

// open dials, and waits for the connection for as long as patience lasts. No more than
// one dial is out: drivers do not always come back from one.
func (s *session) open(ctx context.Context) error {
	if s.dialing == nil {
		s.dialing = s.dialed(ctx)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case d := <-s.dialing:
		s.dialing = nil
		s.conn = d.conn
		return d.err
	case <-timer.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dialed dials, until ctx ends. Who does not take the connection soon finds a later
// one: it is asked whether it lives before anything else.
func (l *Listener) dialed(ctx context.Context) <-chan dialed {
	answers := make(chan dialed)
	go func() {
		soon, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		conn, err := l.dial(soon)
		select {
		case answers <- dialed{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	return answers
}

// hangUp closes the connection, and with it the marks.
func (s *session) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = bounded.Do(ctx, func(context.Context) error { return s.conn.Close() })
}

func (s *session) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return bounded.Do(ctx, func(ctx context.Context) error { return s.conn.Exec(ctx, statement) })
}

// listen begins to hear, and makes sure of it: nothing may be marked on a connection
// that is not this session's alone.
func (s *session) listen(ctx context.Context) error {
	if err := s.exec(ctx, s.words.listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	probing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.mu.Lock()
	probe := s.probe
	s.mu.Unlock()
	if err := bounded.Do(probing, probe); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	heard, err := s.receive(probing, nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && !heard:
		return errDeaf
	}
	return err
}

// attend wakes those who wait until the connection fails.
func (s *session) attend(ctx context.Context) error {
	tidied, listened := time.Now(), time.Now()
	for {
		moment, cancel := context.WithTimeout(ctx, tidy)
		_, err := s.receive(moment, s.changed)
		cancel()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		now := time.Now()
		if now.Sub(tidied) >= tidy {
			s.forget(now)
			tidied = now
		}
		if err := s.mark(ctx); err != nil {
			return fmt.Errorf("mark: %w", err)
		}
		if now.Sub(listened) >= beat {
			if err := s.exec(ctx, s.words.listen); err != nil {
				return fmt.Errorf("listen again: %w", err)
			}
			listened = now
		}
	}
}

// receive waits for one notification, and wakes those whom it is for, until ctx ends
// or interrupted does. It returns once the driver has: the connection makes one call
// at a time.
func (s *session) receive(ctx context.Context, interrupted <-chan struct{}) (heard bool, err error) {
	type received struct {
		payload string
		err     error
	}
	waiting, interrupt := context.WithCancel(ctx)
	defer interrupt()
	answers := make(chan received, 1)
	go func() {
		payload, err := s.conn.Receive(waiting)
		answers <- received{payload, err}
	}()
	var r received
	select {
	case r = <-answers:
	case <-waiting.Done():
		r, err = await(answers)
	case <-interrupted:
		interrupt()
		r, err = await(answers)
	}
	switch {
	case err != nil:
		return false, err
	case r.err == nil:
		s.board.Wake(r.payload) // the probe's is nobody's
		return true, nil
	case waiting.Err() != nil && errors.Is(r.err, waiting.Err()):
		return false, nil
	default:
		return false, r.err
	}
}

// await waits for a driver that should come back by itself.
func await[T any](answers <-chan T) (answer T, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case answer = <-answers:
		return answer, nil
	case <-timer.C:
		return answer, errors.New("the driver does not come back")
	}
}

// The locks of told.sql: those of all leases, and that of one.
const everything = "(SELECT 2003792492 AS class, n AS key FROM generate_series(0, 63) AS n) AS keys"

func only(workID string) string {
	return "(SELECT 2003792491 AS class, hashtext(" + literal(workID) + ") AS key) AS keys"
}

// mark brings what the connection says into line with what is wanted.
func (s *session) mark(ctx context.Context) error {
	want, all := s.wants(s.all)
	// What is added first: nothing is left unsaid in between.
	if all && !s.all {
		// Refused, some of them may have been had: then it is a new session's turn.
		if err := s.exec(ctx, with(s.words.mark, everything)); err != nil {
			return err
		}
		s.all = true
	}
	for id := range want {
		if s.marked[id] {
			continue
		}
		err := s.exec(ctx, with(s.words.mark, only(id)))
		switch sqlState(err) {
		case "55P03", "53200": // lock not available, out of memory
			continue // again with the next look: what frees the lease just now may take long
		}
		if err != nil {
			return err
		}
		s.marked[id] = true
	}
	for id := range s.marked {
		if want[id] {
			continue
		}
		if err := s.exec(ctx, with(s.words.unmark, only(id))); err != nil {
			return err
		}
		delete(s.marked, id)
	}
	if s.all && !all {
		if err := s.exec(ctx, with(s.words.unmark, everything)); err != nil {
			return err
		}
		s.all = false
	}
	return nil
}

// with returns mark or unmark for keys.
func with(statement, keys string) string { return strings.Replace(statement, "/*keys*/", keys, 1) }
