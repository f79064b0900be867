//go:build linux

package server

import (
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestServer(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/bench/server")
}

var _ = Describe("A process", func() {
	It("runs as nobody who may do all, answers before it counts as started, and leaves nothing", func(ctx SpecContext) {
		pg, err := StartPostgres(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(pg.Close)
		Expect(pg.Version(ctx)).NotTo(BeEmpty())
		Expect(pg.Close()).To(Succeed())
		Expect(pg.dir).NotTo(BeADirectory())
	}, SpecTimeout(time.Minute))

	It("that never answers is an error with what it said", func() {
		p, err := newProcess("mute")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		Expect(p.log.WriteString("I cannot")).NotTo(BeZero())
		Expect(p.said()).To(Equal("I cannot"))
	})

	It("counts the CPU of its children, those that have ended too", func() {
		p := &process{cmd: exec.Command("sh", "-c", `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done & wait; read -r _`)}
		in, err := p.cmd.StdinPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(p.cmd.Start()).To(Succeed())
		DeferCleanup(func() {
			Expect(in.Close()).To(Succeed())
			_ = p.cmd.Wait() // its read ends with an error
		})
		Eventually(p.cpu).WithTimeout(time.Minute).Should(BeNumerically(">", 0))
	})
})

var _ = Describe("The disk", func() {
	It("of a directory counts flushes", func() {
		d, err := diskOf(os.TempDir())
		Expect(err).NotTo(HaveOccurred())
		before, err := d.flushes()
		Expect(err).NotTo(HaveOccurred())
		Expect(d.flushes()).To(BeNumerically(">=", before))
	})
})
