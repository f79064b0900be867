//go:build long

package postgres_test

func init() { conforming = []string{"0.4", "0.5", "0.6"} }
