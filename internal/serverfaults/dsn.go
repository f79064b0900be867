package serverfaults

import (
	"net/url"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// with returns dsn with a setting of the session, or a parameter of the driver.
func with(dsn, name, value string) string {
	GinkgoHelper()
	return edited(dsn, func(u *url.URL) {
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
	})
}

// through returns dsn with another address of the server.
func through(dsn, address string) string {
	GinkgoHelper()
	return edited(dsn, func(u *url.URL) { u.Host = address })
}

// as returns dsn with another role.
func as(dsn, role string) string {
	GinkgoHelper()
	return edited(dsn, func(u *url.URL) { u.User = url.User(role) })
}

// address returns where the server of dsn listens.
func address(dsn string) string {
	GinkgoHelper()
	u, err := url.Parse(dsn)
	Expect(err).NotTo(HaveOccurred())
	return u.Host
}

func edited(dsn string, edit func(*url.URL)) string {
	GinkgoHelper()
	u, err := url.Parse(dsn)
	Expect(err).NotTo(HaveOccurred())
	edit(u)
	return u.String()
}
