//go:build !unix

package pgtest

import (
	"errors"
	"syscall"
)

var errUnsupported = errors.New("no throwaway PostgreSQL server on this system: set " + EnvDSN)

type account struct{}

func unprivileged() (account, error)             { return account{}, errUnsupported }
func (account) Own(string) error                 { return errUnsupported }
func (account) attributes() *syscall.SysProcAttr { return nil }
func (s *Server) keep() error                    { return errUnsupported }
func (s *Server) close() error                   { return errUnsupported }
func (s *Server) freeze() error                  { return errUnsupported }
func (s *Server) thaw() error                    { return errUnsupported }
