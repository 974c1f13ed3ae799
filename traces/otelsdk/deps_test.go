package otelsdk

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWhoLinksTheSDK asks the go command what programs link: of OpenTelemetry's SDK and of
// gRPC nothing, unless they import this package.
func TestWhoLinksTheSDK(t *testing.T) {
	const root, sdk = "github.com/greenroomdb/greenroom", "go.opentelemetry.io/otel/sdk/trace"
	for _, pkg := range []string{"traces", "traces/otlp", "cmd/greenroom", "bench"} {
		for _, dep := range deps(t, root+"/"+pkg) {
			if strings.HasPrefix(dep, "go.opentelemetry.io/otel/sdk") || strings.HasPrefix(dep, "google.golang.org/grpc") {
				t.Errorf("%s links %s", pkg, dep)
			}
			if pkg == "traces" && strings.HasPrefix(dep, "go.opentelemetry.io/") {
				t.Errorf("%s links %s", pkg, dep)
			}
		}
	}
	seen := false // or the list says nothing
	for _, dep := range deps(t, root+"/traces/otelsdk") {
		seen = seen || dep == sdk
		if strings.HasPrefix(dep, "google.golang.org/grpc") {
			t.Errorf("traces/otelsdk links %s", dep)
		}
	}
	if !seen {
		t.Errorf("traces/otelsdk doesn't link %s", sdk)
	}
}

func deps(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}
