package testkit

import (
	"os"
	"os/exec"
	"testing"
)

// zone says in which time zone a test runs as a part of itself.
const zone = "GREENROOM_TEST_ZONE"

// InZones runs the test that calls it in three time zones, each in a process of its own: Go looks at TZ once. It returns false in the
// test that did so, and true where the test is to go on.
func InZones(t *testing.T) bool {
	t.Helper()
	if os.Getenv(zone) != "" {
		return true
	}
	for _, name := range []string{"UTC", "Asia/Kathmandu", "America/New_York"} {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), zone+"="+name, "TZ="+name)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("TZ=%s: %v\n%s", name, err, out)
		}
	}
	return false
}
