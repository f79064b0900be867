package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
)

// store is a backend with what operators need.
type store interface {
	backend.Backend
	backend.Lister
	backend.ForceReleaser
}

// tool does what a command says.
type tool struct {
	store store
	out   io.Writer
	now   func() time.Time
}

func (t tool) do(ctx context.Context, cmd command) error {
	switch cmd.verb {
	case "force-release":
		return t.forceRelease(ctx, cmd.args[0], cmd.args[1])
	case "forget":
		return t.forget(ctx, cmd.args[0], cmd.args[1])
	case "sweep":
		return t.sweep(ctx, cmd.sweep)
	case "check":
		return t.check(ctx)
	default:
		return t.watch(ctx, cmd)
	}
}

// watch lists once, or again and again until ctx ends.
func (t tool) watch(ctx context.Context, cmd command) error {
	for {
		err := t.list(ctx, cmd)
		interrupted := cmd.watch > 0 && ctx.Err() != nil
		if cmd.watch <= 0 || err != nil && !interrupted {
			return err
		}
		timer := time.NewTimer(cmd.watch)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			fmt.Fprintln(t.out)
		}
	}
}

func (t tool) list(ctx context.Context, cmd command) error {
	p := newTable(t.out, t.now())
	if cmd.json {
		p = newLines(t.out)
	}
	for info, err := range t.store.List(ctx, cmd.list) {
		if err == nil {
			err = p.print(info)
		}
		if err != nil {
			return errors.Join(err, p.close())
		}
	}
	return p.close()
}

// forget deletes a lease on behalf of its holder, who is fenced then. The token says
// which lease is meant, so that one which has moved on meanwhile is not touched.
func (t tool) forget(ctx context.Context, workID, token string) error {
	n, err := parseToken(token)
	if err != nil {
		return err
	}
	info, err := t.find(ctx, workID)
	if err != nil {
		return err
	}
	err = t.store.Forget(ctx, backend.LeaseRecord{WorkID: workID, HolderID: info.HolderID, FencingToken: n})
	if err != nil {
		return t.refused(ctx, workID, n, err)
	}
	fmt.Fprintf(t.out, "%s is forgotten, its state too; the next holder begins anew\n", text(workID))
	return nil
}

func (t tool) forceRelease(ctx context.Context, workID, token string) error {
	n, err := parseToken(token)
	if err != nil {
		return err
	}
	if err := t.store.ForceRelease(ctx, workID, n); err != nil {
		return t.refused(ctx, workID, n, err)
	}
	fmt.Fprintf(t.out, "%s is free, and the holder under token %d is fenced; the next one reads expired\n", text(workID), n)
	return nil
}

// find returns the lease on workID.
func (t tool) find(ctx context.Context, workID string) (backend.LeaseInfo, error) {
	for info, err := range t.store.List(ctx, backend.ListOptions{WorkIDPrefix: workID}) {
		if err != nil || info.WorkID == workID {
			return info, err
		}
	}
	return backend.LeaseInfo{}, fmt.Errorf("there is no lease on %s", text(workID))
}

// refused says what stands in the way of a call for the lease under token.
func (t tool) refused(ctx context.Context, workID string, token uint64, verdict error) error {
	if !errors.Is(verdict, backend.ErrFenced) && !errors.Is(verdict, backend.ErrLeaseExpired) {
		return verdict
	}
	info, err := t.find(ctx, workID)
	switch {
	case err != nil:
		return err
	case info.FencingToken > token:
		return fmt.Errorf("%s has moved on to token %d: %w", text(workID), info.FencingToken, verdict)
	case info.FencingToken < token:
		return fmt.Errorf("%s is under token %d as yet: %w", text(workID), info.FencingToken, verdict)
	case !info.Live:
		return fmt.Errorf("%s is free already: %s", text(workID), info.Exit)
	default:
		return verdict
	}
}

func parseToken(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("token %q is no number: the list shows it", text)
	}
	return n, nil
}

func (t tool) sweep(ctx context.Context, opts backend.SweepOptions) error {
	vacuum, err := worklease.NewVacuum(t.store, worklease.VacuumConfig{})
	if err != nil {
		return err
	}
	n, err := vacuum.Sweep(ctx, opts)
	if err == nil || n > 0 {
		fmt.Fprintf(t.out, "%d deleted\n", n)
	}
	return err
}

// check asks a store that can say whether it is as it must be.
func (t tool) check(ctx context.Context) error {
	c, ok := t.store.(interface{ Check(context.Context) error })
	if !ok {
		return errors.New("a store in memory has nothing to check")
	}
	if err := c.Check(ctx); err != nil {
		return err
	}
	fmt.Fprintln(t.out, "all is as it must be")
	return nil
}
