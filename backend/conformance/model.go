package conformance

import "github.com/aetomala/worklease/backend"

// model is what a backend must do, without a store, a clock or concurrency.
type model struct {
	rows map[string]*modelRow
	last uint64 // the greatest token, kept by who notes which ones the backend chose
}

type modelRow struct {
	holder     string
	token      uint64
	live       bool
	exit       backend.ExitMode
	prevExit   backend.ExitMode
	prevHolder string
	state      string
}

// acquire takes the lease; the token is the backend's choice.
func (m *model) acquire(workID, holderID string, live bool) (*modelRow, error) {
	next := &modelRow{holder: holderID, live: live}
	if r := m.rows[workID]; r != nil {
		if r.live {
			return nil, backend.ErrLeaseHeld
		}
		next.prevExit, next.prevHolder, next.state = r.exit, r.holder, r.state
		if r.exit == backend.ExitNone {
			next.prevExit = backend.ExitExpired
		}
	}
	m.rows[workID] = next
	return next, nil
}

// own returns the row that rec still owns.
func (m *model) own(rec backend.LeaseRecord) (*modelRow, error) {
	if r, err := m.tokened(rec); err == nil && r.holder == rec.HolderID {
		return r, nil
	}
	return nil, backend.ErrFenced
}

// tokened returns the row that has rec's token.
func (m *model) tokened(rec backend.LeaseRecord) (*modelRow, error) {
	if r := m.rows[rec.WorkID]; r != nil && r.token == rec.FencingToken {
		return r, nil
	}
	return nil, backend.ErrFenced
}

func (m *model) checkpoint(rec backend.LeaseRecord, state string, live bool) error {
	r, err := m.own(rec)
	if err == nil && r.exit != backend.ExitNone {
		err = backend.ErrLeaseExpired
	}
	if err == nil {
		r.state, r.live = state, live
	}
	return err
}

func (m *model) renew(rec backend.LeaseRecord, live bool) error {
	r, err := m.own(rec)
	if err == nil && !r.live {
		err = backend.ErrLeaseExpired
	}
	if err == nil {
		r.live = live
	}
	return err
}

func (m *model) release(rec backend.LeaseRecord, mode backend.ExitMode) error {
	if !mode.Declarable() {
		return backend.ErrInvalidExitMode
	}
	err := m.renew(rec, false)
	if err == nil {
		m.rows[rec.WorkID].exit = mode
	}
	return err
}

func (m *model) read(rec backend.LeaseRecord) (backend.Checkpoint, error) {
	r, err := m.tokened(rec)
	if err != nil {
		return backend.Checkpoint{}, err
	}
	cp := backend.Checkpoint{PrevExit: r.prevExit, PrevHolderID: r.prevHolder}
	if r.state != "" {
		cp.State = []byte(r.state)
	}
	return cp, nil
}

func (m *model) forget(rec backend.LeaseRecord) error {
	_, err := m.own(rec)
	if err == nil {
		delete(m.rows, rec.WorkID)
	}
	return err
}

func (m *model) restore(rec backend.LeaseRecord) error {
	r, err := m.tokened(rec)
	switch {
	case err != nil:
		return err
	case r.prevExit == backend.ExitNone:
		delete(m.rows, rec.WorkID)
	case r.prevExit == backend.ExitExpired:
		r.holder, r.exit, r.live = r.prevHolder, backend.ExitNone, false
	default:
		r.holder, r.exit, r.live = r.prevHolder, r.prevExit, false
	}
	return nil
}

// forceRelease gives the row a token that nobody has.
func (m *model) forceRelease(rec backend.LeaseRecord) error {
	r, err := m.tokened(rec)
	if err == nil && r.exit != backend.ExitNone {
		err = backend.ErrLeaseExpired
	}
	if err == nil {
		r.token, r.live = 0, false
	}
	return err
}

func (m *model) sweep(includeExpired bool) (deleted int64) {
	for workID, r := range m.rows {
		if !r.live && (r.exit == backend.ExitRetired || includeExpired && r.exit == backend.ExitNone) {
			delete(m.rows, workID)
			deleted++
		}
	}
	return deleted
}
