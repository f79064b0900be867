//go:build !long

package serverfaults

// longSpecs are those of the build tag long.
func (s *subject) longSpecs() {}
