package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// daemonSet holds the parts of the DaemonSet that the tests look at.
type daemonSet struct {
	Spec struct {
		Template struct {
			Spec struct {
				InitContainers []container `json:"initContainers"`
				Containers     []container `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type container struct {
	Name            string `json:"name"`
	SecurityContext struct {
		Capabilities struct {
			Drop []string `json:"drop"`
			Add  []string `json:"add"`
		} `json:"capabilities"`
	} `json:"securityContext"`
	VolumeMounts []struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
	} `json:"volumeMounts"`
}

func rendered(t *testing.T) daemonSet {
	t.Helper()
	files, err := render(chartDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var d daemonSet
	if err := yaml.Unmarshal([]byte(files["daemonset"]), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The init container, with exactly its capabilities, installs into a directory that belongs to
// another user, as kubespray makes /opt/cni/bin.
func TestInitContainerWritesAnotherUsersDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a directory for another user")
	}
	caps := rendered(t).Spec.Template.Spec.InitContainers[0].SecurityContext.Capabilities
	if !slices.Equal(caps.Drop, []string{"ALL"}) {
		t.Fatalf("the init container drops %v, want ALL", caps.Drop)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(dir, "image")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", built+"/", "./cmd/flanneld", "./cmd/flannel-cni")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	theirs := filepath.Join(dir, "theirs")
	conf := filepath.Join(dir, "cni-conf.json")
	for _, err := range []error{
		os.Mkdir(theirs, 0o755), os.Chown(theirs, 997, 997), // the user kube
		os.WriteFile(conf, []byte(`{"name":"cbr0","plugins":[{"type":"flannel"}]}`), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := confined(caps.Add, filepath.Join(built, "flanneld"), "--install-cni",
		"--cni-bin-dir="+theirs, "--cni-conf-dir="+theirs, "--cni-conf="+conf)
	if err != nil {
		t.Errorf("with the capabilities %v: %v\n%s", caps.Add, err, out)
	}
	if info, err := os.Stat(filepath.Join(theirs, "flannel")); err != nil || info.Mode() != 0o755 {
		t.Errorf("the plugin is %v, %v", info, err)
	}
}

// confined runs a program as root with these capabilities alone.
func confined(capabilities []string, program string, args ...string) (string, error) {
	list := "-all"
	for _, name := range capabilities {
		list += ",+" + strings.ToLower(name)
	}
	args = append([]string{"--bounding-set", list, "--inh-caps", list, "--no-new-privs", program}, args...)
	out, err := exec.Command("setpriv", args...).CombinedOutput()
	return string(out), err
}
