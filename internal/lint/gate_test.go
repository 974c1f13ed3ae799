package lint

import (
	"testing"
)

func TestGateSteps(t *testing.T) {
	steps, err := gateSteps("x\ngate='\none 10 - x\ntwo 20 a x\nthree 5 a x\nfour 40 b x\nfive 7 - x y\nsix 3 b x\n'\ny")
	if err != nil {
		t.Fatal(err)
	}
	if n := gateSeconds(steps); len(steps) != 6 || n != 10+40+7+3 {
		t.Errorf("%v take %d seconds", steps, n)
	}
	for _, script := range []string{"", "\ngate='\none\n'\n", "\ngate='\none x - y\n'\n", "\ngate='\none 1 - x", "\ngate='\none 1 - one's own\n'\n"} {
		if _, err := gateSteps(script); err == nil {
			t.Errorf("%q has steps", script)
		}
	}
}

// TestGatePage holds the table of docs/testing.md against the one of the script.
func TestGatePage(t *testing.T) {
	steps, err := gateSteps(readPage(t, gateScript))
	if err != nil {
		t.Fatal(err)
	}
	renderedPart(t, suitesPage, "gate", renderGate(steps))
}

// gatePart is a script with a table of steps, and the list of a step.
func gatePart(table, longest, list string, more map[string]string) map[string]string {
	files := map[string]string{
		gateScript:      "#!/bin/bash\ngate='\n" + table + "\n'\nlongest=(" + longest + ")\nstep_test() {\n}\nstep_vet() { x; }\nlong_tests() { x; }\nlong_parts=(tests)\n",
		testLists[0]:    "# tests\n" + list,
		testLists[1]:    "./vfs TestA\n",
		"vfs/a_test.go": "package vfs\n\nfunc TestA() {}\n",
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

var gateCases = []ruleCase{
	{"in time", "gate", gatePart("test 700 - x\nvet 500 a x\ntest 500 b x", "./vfs ./vfs/...", "./vfs TestA\n", nil), nil},
	{"too long", "gate", gatePart("test 701 - x\nvet 500 a x\ntest 400 b x", "", "", nil), []string{".ci/run: the steps may take 1201 seconds"}},
	{"nothing there", "gate", gatePart("vet 1 - x\nfly 1 - x", "./kv", "./vfs TestB\n./kv TestA\n", nil), []string{
		".ci/journal.txt:2: lists the test TestB of vfs", ".ci/journal.txt:3: lists the test TestA of kv",
		".ci/run: has no function for the step fly", ".ci/run: lists ./kv among the longest",
	}},

	{"left out", "gate", gatePart("test 1 - x", "", "", map[string]string{".ci/alone.txt": "./vfs TestA\n\n. TestA\n"}), []string{".ci/alone.txt:3: lists the test TestA of ."}},
	{"parts", "gate", gatePart("test 1 - x", "", "", map[string]string{
		gateScript: "#!/bin/bash\ngate='\ntest 1 - x\n'\nlong_parts=(fuzz race)\nnightly_parts=(fuzz)\nstep_test() {\n}\nlong_race() {\n}\nlong_cross() { x; }\nnightly_fuzz() { x; }\n",
	}), []string{".ci/run: has a function for cross, which is no part of long", ".ci/run: has no function for the part fuzz of long"}},

	{"listed", "suites", map[string]string{
		suitesPage:      "<!-- suites -->\n| `vfs.TestA` | 1 |\n| `vfs.TestB` | 1 |\n| `greenroom.TestC` | 1 |\n<!-- /suites -->\n",
		"vfs/a_test.go": "package vfs\n\nfunc TestA() { testkit.Pick(1, 2, 3) }\nfunc TestB() { f() }\nfunc f() { g() }\nfunc g() { testkit.Short() }\nfunc TestNot() { h() }\nfunc h() {}\n",
		"c_test.go":     "package greenroom\n\nfunc TestC() { if testkit.Long() {} }\n",
	}, nil},
	{"not listed", "suites", map[string]string{
		suitesPage:             "<!-- suites -->\n| `vfs.TestA` | 1 |\n<!-- /suites -->\n",
		"vfs/a_test.go":        "package vfs\n\nfunc TestA() {}\n\nfunc TestB() { testkit.OnlyLong() }\n\ntype t int\n\nfunc (t) f() { testkit.Long() }\n",
		"queue/a_test.go":      "package queue\n\nfunc TestA() {\n\tif testkit.Race {\n\t\tt.Skip()\n\t}\n\tif x && !testkit.Race {\n\t}\n}\nfunc TestB() {\n\tif testkit.Race {\n\t\tn = 1\n\t}\n}\nfunc TestC() {\n\tif x || testkit.Race {\n\t\tt.Skip()\n\t}\n}\n",
		"test/suite/go.mod":    "module example.com/house/test/suite",
		"test/suite/a_test.go": "package suite\n\nvar _ = testing.Short()\n",
		"kv/a_test.go":         "package kv\n\nvar (\n\t_ = testing.Short()\n\t_ = \"GREENROOM_" + "LONG\"\n)\n",
	}, []string{
		"docs/testing.md: lists the suite vfs.TestA", "kv/a_test.go:4: asks testing.Short", "kv/a_test.go:5: asks the environment",
		"queue/a_test.go:10: queue.TestB has several forms", "queue/a_test.go:15: queue.TestC has several forms",
		"test/suite/a_test.go:3: asks testing.Short", "vfs/a_test.go:5: vfs.TestB has several forms", "vfs/a_test.go:9: a method asks",
	}},
}
