package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// A program of RivetKit's, and its client, on the engine of Greenroom and on what RivetKit brings itself: an engine with 2.3, and with 2.2 a development
// server, which is what a program runs on that is given no endpoint. Client and program are the same on both sides.
const (
	rivetEngine = "rivet-engine"
	rivetDev    = "rivetkit-dev"
)

// The versions of RivetKit, whose packages are those that package engine is tested with.
const (
	rivetkit22 = "2.2.1"
	rivetkit23 = "2.3.19"
)

// An atRivetKit is one side of a line rivetkit/…: what serves the program of a version, how its client calls the action, and Greenroom's engine.
type atRivetKit struct {
	version, way, on string
	// serve starts what the program is to connect to, and returns what its environment has, and the address for the client.
	serve func(k atRivetKit, s *stand) (env []string, url string)
}

// open starts all that the side is.
func (k atRivetKit) open(s *stand) {
	env, url := k.serve(k, s)
	program := k.node(s, "program.mjs")
	program.Env = append(program.Env, env...)
	s.processes.serve(s, program)
	load := k.node(s, "load.mjs", "insert", k.way)
	load.Env = append(load.Env, "RIVET_ENDPOINT="+url)
	s.processes.ask(s, load)
	check(s.do(1)) // it takes until all have begun
}

// folder returns the folder with the packages of the version.
func (k atRivetKit) folder(s *stand) string {
	if dir := os.Getenv(rivetkitDir); dir != "" {
		return filepath.Join(dir, k.version)
	}
	return npm{s.ctx, s.bin}.packages(filepath.Join(root(), "rivetkit", "engine", "testdata", "suite", k.version))
}

// node returns the command that runs a script of bench/peers/rivetkit beside the packages of the version.
func (k atRivetKit) node(s *stand, script string, args ...string) *exec.Cmd {
	dir := k.folder(s)
	at := filepath.Join(dir, "bench-"+script)
	dirPeers, _ := peersDir()
	copyFile(filepath.Join(dirPeers, "rivetkit", script), at)
	cmd := exec.Command(npm{s.ctx, s.bin}.node(), append([]string{at}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "RIVET_RUN_SERVICES=0", "RIVET_LOG_LEVEL=error", "LOG_LEVEL=error")
	return cmd
}

// greenroom serves with greenroom engine.
func (k atRivetKit) greenroom(s *stand) (env []string, url string) {
	store, at := must(filepath.Abs(filepath.Join(s.dir, "store"))), freeAddress()
	if k.on == engineMem {
		store = "mem:"
	}
	s.processes.serve(s, exec.Command(build(s, filepath.Join(root(), "cmd", "greenroom")), "engine", store, "--listen", at), at)
	return []string{"RIVET_ENDPOINT=http://" + at}, "http://" + at
}

// engine serves with RivetKit's own engine, which is told what RivetKit tells it when it starts it itself.
func (k atRivetKit) engine(s *stand) (env []string, url string) {
	guard, other, metrics := freeAddress(), freeAddress(), freeAddress()
	cmd := exec.Command(filepath.Join(k.folder(s), "node_modules", "@rivetkit", "engine-cli-linux-x64-musl", "rivet-engine"), "start")
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "RIVET__FILE_SYSTEM__PATH="+must(filepath.Abs(s.dir)),
		"RIVET__FEATURES__GUARD_GATEWAY_V3__MODE=on", "RIVET__FEATURES__GUARD_GATEWAY_V3__PERCENTAGE=100",
		"RIVET__PEGBOARD__BASE_RETRY_TIMEOUT=100", "RIVET__PEGBOARD__ENVOY_ELIGIBLE_THRESHOLD=5000", "RIVET__PEGBOARD__ENVOY_LOST_THRESHOLD=7000",
		"RIVET__PEGBOARD__MIN_METADATA_POLL_INTERVAL=1000", "RIVET__PEGBOARD__RESCHEDULE_BACKOFF_MAX_EXPONENT=1", "RIVET__PEGBOARD__RETRY_RESET_DURATION=100",
		"RIVET__PEGBOARD__RUNNER_ELIGIBLE_THRESHOLD=5000", "RIVET__PEGBOARD__RUNNER_LOST_THRESHOLD=7000",
		"RIVET__RUNTIME__FORCE_SHUTDOWN_DURATION=2", "RIVET__RUNTIME__GUARD_SHUTDOWN_DURATION=1", "RIVET__RUNTIME__WORKER_SHUTDOWN_DURATION=1")
	for name, at := range map[string]string{"GUARD": guard, "API_PEER": other, "METRICS": metrics} {
		host, port, err := net.SplitHostPort(at)
		check(err)
		cmd.Env = append(cmd.Env, "RIVET__"+name+"__HOST="+host, "RIVET__"+name+"__PORT="+port)
	}
	s.processes.serve(s, cmd, guard, other)
	_, port, err := net.SplitHostPort(guard)
	check(err)
	return []string{"RIVET_RUN_ENGINE_PORT=" + port}, "http://" + guard
}

// dev lets RivetKit serve itself, as it does without an endpoint.
func (k atRivetKit) dev(s *stand) (env []string, url string) {
	at := freeAddress()
	_, port, err := net.SplitHostPort(at)
	check(err)
	return []string{`SETUP={"managerPort":` + port + `}`, "RIVETKIT_STORAGE_PATH=" + must(filepath.Abs(filepath.Join(s.dir, "store")))}, "http://" + at
}
