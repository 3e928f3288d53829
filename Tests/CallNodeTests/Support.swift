import CallNodeKit

/// A node as these flags set it up.
func node(
  _ flags: [SettingKey: String], for role: NodeRoles? = .all
) throws -> NodeConfiguration {
  let flags = flags.merging(["keysFile": "keys.json"]) { given, _ in given }
  let settings = try ResolvedSettings.resolve(flags: flags, environment: [:], file: nil)
  return try settings.node(for: role, generatedNodeID: "n")
}

/// The problems of a configuration; empty: it has none.
func problems(_ body: () throws -> Void) -> [ConfigurationError.Problem] {
  do {
    try body()
    return []
  } catch {
    return (error as? ConfigurationError)?.problems ?? []
  }
}
