// Command cross checks the types of a module's packages as they are on other systems:
//
//	go run ./internal/lint/cross darwin/arm64 windows/amd64
//
// It reads the files that the go command would compile there, without cgo, and has go/types check them: all of the module's own
// packages, and the declarations alone of what they import, the standard library among it. It compiles nothing. So it takes
// seconds where a first go build takes minutes, and it finds what the compiler finds, but not what the assembler and the
// linker do.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	for _, target := range os.Args[1:] {
		n, err := check(".", target)
		if err != nil {
			fmt.Fprintf(os.Stderr, "cross: %s:\n%v\n", target, err)
			os.Exit(1)
		}
		fmt.Printf("%s: %d packages\n", target, n)
	}
}

// A listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string
	Module     *struct{ Main bool }
}

// check checks the packages of the module in dir, and all that they import, for a target of the form GOOS/GOARCH. It
// returns their number, and every error that it finds.
func check(dir, target string) (int, error) {
	system, arch, ok := strings.Cut(target, "/")
	if !ok {
		return 0, errors.New("a target has the form GOOS/GOARCH")
	}
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	out, err := list.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := list.Start(); err != nil {
		return 0, err
	}
	c := checker{fset: token.NewFileSet(), packages: map[string]*types.Package{"unsafe": types.Unsafe}}
	c.conf = types.Config{
		Importer: &c,
		Sizes:    types.SizesFor("gc", arch),
		Error:    func(err error) { c.errs = append(c.errs, err) },
	}
	// A package comes behind those that it imports.
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return 0, errors.Join(err, list.Wait())
		}
		c.check(p)
	}
	return len(c.packages), errors.Join(append(c.errs, list.Wait())...)
}

// A checker holds the checked packages, by import path. It is their importer for the package after them.
type checker struct {
	conf      types.Config
	fset      *token.FileSet
	packages  map[string]*types.Package
	importMap map[string]string // of the package that is being checked
	errs      []error
}

// Import returns a package that was checked before.
func (c *checker) Import(path string) (*types.Package, error) {
	if other, ok := c.importMap[path]; ok {
		path = other
	}
	if p := c.packages[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}

// check checks one package, the bodies of its functions too if it belongs to the module.
func (c *checker) check(p listed) {
	if p.ImportPath == "unsafe" {
		return
	}
	own := p.Module != nil && p.Module.Main
	mode := parser.SkipObjectResolution
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, mode)
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		files = append(files, f)
	}
	c.importMap = p.ImportMap
	c.conf.IgnoreFuncBodies = !own
	// Errors come by conf.Error.
	c.packages[p.ImportPath], _ = c.conf.Check(p.ImportPath, c.fset, files, nil)
}
