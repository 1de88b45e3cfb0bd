"""From a benchmark's release files to streams: questions, the peers' answers, grades."""
