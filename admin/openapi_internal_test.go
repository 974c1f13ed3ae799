package admin

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3gen"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// TestDocument: openapi.json is what the routes say, valid, and has all of them but those that aren't HTTP: a connection that is upgraded speaks a
// protocol of its own, which OpenAPI has no words for.
func TestDocument(t *testing.T) {
	doc := newDocument(t)
	text, err := doc.MarshalJSON()
	var want bytes.Buffer
	if err == nil {
		err = json.Indent(&want, text, "", " ")
	}
	if err != nil {
		t.Fatal(err)
	}
	want.WriteByte('\n')
	if *update {
		if err := os.WriteFile("openapi.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want.Bytes(), document) {
		t.Error("openapi.json isn't what the routes say: go test ./admin -run TestDocument -update")
	}
	read, err := openapi3.NewLoader().LoadFromData(want.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	var routed, documented []string
	for _, rt := range routes() {
		if rt.protocol == "" {
			routed = append(routed, rt.method+" "+rt.path)
		}
	}
	for path, item := range read.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	slices.Sort(routed)
	slices.Sort(documented)
	if !slices.Equal(routed, documented) {
		t.Errorf("the routes are\n%q, the document has\n%q", routed, documented)
	}
}

// newDocument describes the routes.
func newDocument(t *testing.T) *openapi3.T {
	t.Helper()
	d := &describer{t: t, schemas: openapi3.Schemas{"None": openapi3.NewObjectSchema().NewRef()}, comments: map[string]string{}}
	d.gen = openapi3gen.NewGenerator(
		openapi3gen.CreateComponentSchemas(openapi3gen.ExportComponentSchemasOptions{ExportComponentSchemas: true, ExportTopLevelSchema: true}),
		openapi3gen.SchemaCustomizer(customize))
	d.parse()
	doc := &openapi3.T{
		OpenAPI: "3.0.3",
		Info: &openapi3.Info{
			Title: "Greenroom", Version: "1",
			Description: "Looks into a store that a process has open, and works with what is in it. An actor is its name, or id: and the text of its id. A token of the role read " +
				"does what is tagged read; all else takes one of the role write. On the socket beside the store no token is needed.",
		},
		Paths:    openapi3.NewPaths(),
		Security: *openapi3.NewSecurityRequirements().With(openapi3.NewSecurityRequirement().Authenticate("token")),
	}
	refused := openapi3.NewResponse().WithDescription("Why it isn't done.").WithJSONSchemaRef(d.schema(Error{}))
	for _, rt := range routes() {
		if rt.protocol != "" {
			continue
		}
		item := doc.Paths.Value(rt.path)
		if item == nil {
			item = &openapi3.PathItem{}
			doc.Paths.Set(rt.path, item)
		}
		item.SetOperation(rt.method, d.operation(&rt, refused))
	}
	d.describe()
	doc.Components = &openapi3.Components{
		Schemas:         d.schemas,
		SecuritySchemes: openapi3.SecuritySchemes{"token": &openapi3.SecuritySchemeRef{Value: openapi3.NewSecurityScheme().WithType("http").WithScheme("bearer")}},
	}
	return doc
}

// A describer puts routes into words of OpenAPI.
type describer struct {
	t        *testing.T
	gen      *openapi3gen.Generator
	schemas  openapi3.Schemas
	comments map[string]string // of types, and of their fields behind a dot, by the names in JSON
}

func (d *describer) schema(v any) *openapi3.SchemaRef {
	d.t.Helper()
	ref, err := d.gen.NewSchemaRefForValue(v, d.schemas)
	if err != nil {
		d.t.Fatal(err)
	}
	return openapi3.NewSchemaRef(ref.Ref, nil)
}

func (d *describer) operation(rt *route, refused *openapi3.Response) *openapi3.Operation {
	op := openapi3.NewOperation()
	op.Summary, op.Tags = rt.what, []string{"write"}
	if rt.reads {
		op.Tags[0] = "read"
	}
	op.OperationID = strings.ToLower(rt.method) + regexp.MustCompile(`[/.{}]+`).ReplaceAllString(strings.TrimPrefix(rt.path, "/v1"), "_")
	if strings.Contains(rt.path, "{actor}") {
		op.AddParameter(openapi3.NewPathParameter("actor").WithSchema(openapi3.NewStringSchema()))
	}
	for _, p := range rt.params {
		op.AddParameter(openapi3.NewQueryParameter(p.name).WithDescription(p.what).WithSchema(paramSchema(&p)))
	}
	if rt.in != nil {
		op.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithRequired(true).WithJSONSchemaRef(d.schema(rt.in))}
	}
	binary := openapi3.NewStringSchema().WithFormat("binary")
	if rt.takes != "" {
		op.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithRequired(true).WithContent(openapi3.NewContentWithSchema(binary, []string{rt.takes}))}
	}
	done := openapi3.NewResponse().WithDescription("It is done.")
	switch {
	case rt.out != nil:
		done.WithJSONSchemaRef(d.schema(rt.out))
	case rt.gives == "application/json":
		done.WithContent(openapi3.NewContentWithJSONSchema(openapi3.NewObjectSchema()))
	default:
		done.WithContent(openapi3.NewContentWithSchema(openapi3.NewStringSchema(), []string{rt.gives}))
	}
	op.Responses = openapi3.NewResponses(openapi3.WithStatus(http.StatusOK, &openapi3.ResponseRef{Value: done}),
		openapi3.WithName("default", refused))
	return op
}

func paramSchema(p *param) *openapi3.Schema {
	var s *openapi3.Schema
	switch p.kind {
	case "integer":
		s = openapi3.NewIntegerSchema().WithMin(0)
		if p.name == limitParam.name {
			s = openapi3.NewIntegerSchema().WithMin(1).WithMax(maxLimit).WithDefault(defaultLimit)
		}
	case "boolean":
		s = openapi3.NewBoolSchema()
	case "date-time":
		s = openapi3.NewStringSchema().WithFormat("date-time")
	default:
		s = openapi3.NewStringSchema()
	}
	for _, v := range p.of {
		s.Enum = append(s.Enum, v)
	}
	if p.repeated {
		s = openapi3.NewArraySchema().WithItems(s)
	}
	return s
}

// customize adds what the generator doesn't know of a type: which fields are always there, and what may be null.
func customize(_ string, t reflect.Type, tag reflect.StructTag, s *openapi3.Schema) error {
	if strings.Contains(tag.Get("json"), ",omitempty") {
		s.Nullable = false
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		s.Nullable = true // it is any value
	case t == reflect.TypeFor[Time]():
		s.Format = "date-time"
	case t.Kind() == reflect.Uint64:
		s.Max = nil // it is not exact as a floating-point number
	case t.Kind() == reflect.Struct:
		s.Type = &openapi3.Types{"object"}
		for _, f := range reflect.VisibleFields(t) {
			if name, opts, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && name != "" && opts == "" {
				s.Required = append(s.Required, name)
			}
		}
	}
	return nil
}

// parse reads the comments of the package.
func (d *describer) parse() {
	files, err := filepath.Glob("*.go")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			d.t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				return true
			}
			spec := decl.Specs[0].(*ast.TypeSpec)
			d.comments[spec.Name.Name] = sentence(decl.Doc)
			st, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range st.Fields.List {
				if field.Tag != nil {
					json, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
					d.comments[spec.Name.Name+"."+json] = sentence(field.Comment) + sentence(field.Doc)
				}
			}
			return false
		})
	}
}

func sentence(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// describe gives the schemas the comments of their types.
func (d *describer) describe() {
	for name, s := range d.schemas {
		s.Value.Description = d.comments[name]
		for field, p := range s.Value.Properties {
			if p.Ref == "" {
				p.Value.Description = d.comments[name+"."+field]
			}
		}
	}
}
