package proof

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has less garbage collected: the tests load thousands of kinds, and that takes a third of their CPU time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
