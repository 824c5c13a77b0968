package embedded

import "path/filepath"

func downloadedBin(stateDir string) string {
	return filepath.Join(stateDir, "postgresql-"+downloadVersion, "native", "bin")
}

const downloadVersion = "18.4.0-beta.17"
