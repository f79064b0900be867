// Package agenda keeps what falls due when, for any number of items on one timer.
package agenda

import (
	"container/heap"
	"sync"
	"time"
)

// Agenda calls back when its first entry falls due. It owns no goroutine: the
// callback runs on the timer's. It is safe for concurrent use.
type Agenda[T any] struct {
	mu      sync.Mutex
	entries entries[T]
	timer   *time.Timer // set to the first entry; nil until there was one
	due     func()
}

// Entry is one item's place on an agenda, which it has once at most.
type Entry[T any] struct {
	Item T

	at    time.Time
	early time.Time // from when it may be taken along with others
	index int       // in the heap, from 1; 0 when it is on no agenda
}

// New returns an empty Agenda. It calls due when entries have fallen due, for
// Take to take; never twice for the same ones, but for another one perhaps while
// the call before is still running.
func New[T any](due func()) *Agenda[T] {
	return &Agenda[T]{due: due}
}

// Set puts e on the agenda for at, in place of what it was there for before. It
// may be taken up to slack earlier when others are.
func (a *Agenda[T]) Set(e *Entry[T], at time.Time, slack time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.at, e.early = at, at.Add(-slack)
	first := e.index == 1
	if e.index == 0 {
		heap.Push(&a.entries, e)
	} else {
		heap.Fix(&a.entries, e.index-1)
	}
	if first || e.index == 1 {
		a.wind()
	}
}

// Remove takes e off the agenda, if it is there. A call of due may be on its way.
func (a *Agenda[T]) Remove(e *Entry[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.index > 0 {
		first := e.index == 1
		heap.Remove(&a.entries, e.index-1)
		if first {
			a.wind()
		}
	}
}

// Holds reports whether e is on the agenda.
func (a *Agenda[T]) Holds(e *Entry[T]) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return e.index > 0
}

// Take takes off the agenda what is due at now.
func (a *Agenda[T]) Take(now time.Time) []T {
	return a.take(func(e *Entry[T]) bool { return !now.Before(e.at) })
}

// TakeAlong takes off the agenda what may be taken at now since others are: the
// first entries for as long as their slack allows it.
func (a *Agenda[T]) TakeAlong(now time.Time) []T {
	return a.take(func(e *Entry[T]) bool { return !now.Before(e.early) })
}

func (a *Agenda[T]) take(ripe func(*Entry[T]) bool) []T {
	a.mu.Lock()
	defer a.mu.Unlock()
	var items []T
	for len(a.entries) > 0 && ripe(a.entries[0]) {
		items = append(items, heap.Pop(&a.entries).(*Entry[T]).Item)
	}
	a.wind()
	return items
}

// wind sets the timer to the first entry.
func (a *Agenda[T]) wind() {
	switch {
	case len(a.entries) == 0:
		if a.timer != nil {
			a.timer.Stop()
		}
	case a.timer == nil:
		a.timer = time.AfterFunc(time.Until(a.entries[0].at), a.due)
	default:
		a.timer.Reset(time.Until(a.entries[0].at))
	}
}

// entries is a heap with the earliest first. Where all items have the same
// interval and slack, that is the order of their early as well.
type entries[T any] []*Entry[T]

func (s entries[T]) Len() int           { return len(s) }
func (s entries[T]) Less(i, j int) bool { return s[i].at.Before(s[j].at) }

func (s entries[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i+1, j+1
}

func (s *entries[T]) Push(x any) {
	e := x.(*Entry[T])
	*s = append(*s, e)
	e.index = len(*s)
}

func (s *entries[T]) Pop() any {
	last := len(*s) - 1
	e := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	e.index = 0
	return e
}
