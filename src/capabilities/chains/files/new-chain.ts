/** The chain that `handfast chain new` writes: small, valid, and runnable on a host without changes. */

/** @param name of the chain */
export const newChain = (name: string): string => `# Check it:   handfast chain check ${name}.yaml
# Draw it:    handfast chain show ${name}.yaml
# Try it:     handfast chain dry-run ${name}.yaml --sample 'find={"paths": ["a.md", "b.md"]}' --sample 'read={"content": "x"}'
name: ${name}
description: Reads the Markdown files of the workspace, several at once, and joins what they say.
timeout: 60
max_parallel: 4

nodes:
  - node_id: find
    kind: tool
    name: glob
    input: { patterns: ["*.md"] }
    next_node: any

  # A condition is CEL; outputs of nodes have their names.
  - node_id: any
    kind: branch
    condition: size(find.paths) > 0
    true_node: each

  - node_id: each
    kind: map
    items_path: $.find.paths
    map_node: read
    parallel: 4
    next_node: all

  # Runs for each item of the map, which is $.item.
  - node_id: read
    kind: tool
    name: read_file
    input_map: { path: $.item }
    retry: { max_attempts: 3 }

  - node_id: all
    kind: reduce
    reduce: "join('\\n', [].content)"
`;
