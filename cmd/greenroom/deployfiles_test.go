package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// readDeployed returns a file of deploy.
func readDeployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A composeService is what a service of the Compose file says.
type composeService struct {
	Command     []string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Secrets     []string
	ReadOnly    bool          `yaml:"read_only"`
	Grace       time.Duration `yaml:"stop_grace_period"`
	ExtraHosts  []string      `yaml:"extra_hosts"`
	Networks    map[string]struct {
		Address string `yaml:"ipv4_address"`
	}
	Healthcheck struct{ Test []string }
}

// readCompose returns the services of the Compose file by name, and the hosts among them.
func readCompose(t *testing.T) (services map[string]composeService, hosts []string) {
	t.Helper()
	var file struct {
		Services map[string]composeService
		Secrets  map[string]struct{ File string }
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal([]byte(readDeployed(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		if len(s.Command) > 0 && s.Command[0] == "host" {
			hosts = append(hosts, name)
		}
		for _, secret := range s.Secrets {
			if file.Secrets[secret].File == "" {
				t.Errorf("%s: there is no secret %s", name, secret)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			_, named := file.Volumes[from]
			if _, err := os.Stat(filepath.Join(deployed, from)); err != nil && !named {
				t.Errorf("%s: there is no volume and no file %s", name, from)
			}
		}
	}
	slices.Sort(hosts)
	return file.Services, hosts
}

// checkEnd parses a command line of greenroom host, and compares how long it is given to end with what it may take.
func checkEnd(t *testing.T, args []string, grace time.Duration) (flag func(name string) string) {
	t.Helper()
	root := newRoot(&env{})
	cmd, rest, err := root.Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Fatalf("greenroom %q: %v", args, err)
	}
	if len(cmd.Flags().Args()) != 1 {
		t.Errorf("greenroom %q has no store", args)
	}
	drain, err := cmd.Flags().GetDuration("drain")
	if err != nil {
		t.Fatal(err)
	}
	// Calls that are under way, actors and the backup have so long each, and what is given up of calls has 5 seconds more.
	if most := 3*drain + 5*time.Second; grace <= most || !cmd.Flags().Changed("drain") {
		t.Errorf("greenroom %q is killed after %v, and may take %v", args, grace, most)
	}
	return func(name string) string {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			t.Fatalf("there is no flag %s", name)
		}
		return f.Value.String()
	}
}

// TestCompose: the flags of the Compose file are there, and its hosts, the balancer and the configuration of nginx name the same addresses.
func TestCompose(t *testing.T) {
	services, hosts := readCompose(t)
	if len(hosts) != 3 {
		t.Fatalf("the hosts are %q", hosts)
	}
	conf := readDeployed(t, "nginx/nginx.conf")
	balancer := services["balancer"]
	var servers, extra []string
	for _, m := range regexp.MustCompile(`(?m)^\s*server (\S+) max_fails`).FindAllStringSubmatch(conf, -1) {
		servers = append(servers, m[1])
	}
	var advertised []string
	for _, name := range hosts {
		s := services[name]
		flag := checkEnd(t, s.Command, s.Grace)
		advertised = append(advertised, flag("advertise"))
		extra = append(extra, name+":"+s.Networks["default"].Address)
		if at := flag("advertise"); at != name+":6420" || flag("listen") != "0.0.0.0:6420" || flag("fleet-insecure") != "true" {
			t.Errorf("%s listens on %s, and tells the others %s", name, flag("listen"), at)
		}
		if file, ok := strings.CutPrefix(flag("token-file"), "/run/secrets/"); !ok || !slices.Contains(s.Secrets, file) {
			t.Errorf("%s: the file of the tokens is %s, of the secrets %q", name, flag("token-file"), s.Secrets)
		}
		if s.Environment["PGPASSWORD"] != services["postgres"].Environment["POSTGRES_PASSWORD"] || !s.ReadOnly {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if !slices.Equal(servers, advertised) {
		t.Errorf("nginx spreads calls over %q, and the hosts are %q", servers, advertised)
	}
	if !slices.Equal(balancer.ExtraHosts, extra) {
		t.Errorf("the balancer knows %q, and the hosts are %q", balancer.ExtraHosts, extra)
	}
	port := regexp.MustCompile(`(?m)^\s*listen (\d+);`).FindStringSubmatch(conf)
	if len(port) != 2 || len(balancer.Ports) != 1 || !strings.HasSuffix(balancer.Ports[0], ":"+port[1]) || !strings.Contains(strings.Join(balancer.Healthcheck.Test, " "), ":"+port[1]+"/readyz") {
		t.Errorf("nginx listens on %q, the ports are %q, and %q asks whether it is healthy", port, balancer.Ports, balancer.Healthcheck.Test)
	}
}

// unitLine returns the values of a setting of the unit.
func unitLine(t *testing.T, unit, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(unit, -1)
	if len(m) != 1 {
		t.Fatalf("the unit has %d lines %s", len(m), name)
	}
	return m[0][1]
}

// TestUnit: systemd takes the unit, and its flags are there.
func TestUnit(t *testing.T) {
	unit := readDeployed(t, "systemd/greenroom.service")
	args := strings.Fields(unitLine(t, unit, "ExecStart"))
	program := args[0]
	if args[len(args)-1] != "$GREENROOM_OPTIONS" || !strings.Contains(unit, "EnvironmentFile=") {
		t.Errorf("the unit runs %q", args)
	}
	grace, err := time.ParseDuration(unitLine(t, unit, "TimeoutStopSec") + "s")
	if err != nil {
		t.Fatal(err)
	}
	checkEnd(t, args[1:len(args)-1], grace)
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze isn't there: it isn't asked about the unit")
	}
	there, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "greenroom.service")
	if err := os.WriteFile(file, []byte(strings.Replace(unit, program, there, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "greenroom.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// dockerfileBuild matches the command that builds the program.
var dockerfileBuild = regexp.MustCompile(`(?m)^RUN CGO_ENABLED=0 (go build .* -o )/out/greenroom( \./cmd/greenroom) && mkdir /out/data$`)

// TestDockerfile: the program of the image runs by itself, as a user that isn't root, and gets signals.
func TestDockerfile(t *testing.T) {
	text := readDeployed(t, "docker/Dockerfile")
	for _, want := range []string{
		"\nCOPY --from=build /out/greenroom /usr/local/bin/greenroom\n", "\nUSER 65532:65532\n", "\nSTOPSIGNAL SIGTERM\n", "\nENTRYPOINT [\"/usr/local/bin/greenroom\"]\n", "\nEXPOSE 6420\n",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the Dockerfile lacks %q", want)
		}
	}
	build := dockerfileBuild.FindStringSubmatch(text)
	if build == nil {
		t.Fatal("the Dockerfile doesn't build the program")
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`)
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := version.FindSubmatch(mod); want == nil || !strings.Contains(text, "FROM golang:"+string(want[1])+" AS build\n") {
		t.Errorf("the Dockerfile builds with another Go than %s", want)
	}
	testkit.OnlyLong(t, "it builds the program anew, without cgo")
	program := filepath.Join(t.TempDir(), "greenroom")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", build[1]+program+build[2])
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_DYNAMIC || p.Type == elf.PT_INTERP {
			t.Errorf("the program has %v: it needs libraries", p.Type)
		}
	}
}
