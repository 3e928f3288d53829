/// The name of a setting, as a configuration file has it. The flag and the environment variable follow
/// from it: `ringTimeout`, `--ring-timeout`, `CALLMESH_RING_TIMEOUT`.
package struct SettingKey: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral {
  package var rawValue: String

  package init(rawValue: String) { self.rawValue = rawValue }
  package init(stringLiteral value: String) { rawValue = value }

  package var flag: String { "--" + words.joined(separator: "-") }
  package var environment: String {
    "CALLMESH_" + words.joined(separator: "_").uppercased()
  }

  /// `ringTimeout` → ring, timeout; `natsCA` → nats, ca.
  private var words: [String] {
    var words = [""]
    var last: Character = "A"
    for character in rawValue {
      if character.isUppercase, !last.isUppercase { words.append("") }
      words[words.count - 1].append(contentsOf: character.lowercased())
      last = character
    }
    return words
  }
}

/// The nodes that a setting applies to. All nodes accept all settings, so that one file can serve a
/// whole cluster.
package enum SettingGroup: String, CaseIterable, Sendable {
  case node, keys, edge, coordinator, push, calls

  /// The heading in help and reports.
  package var title: String {
    switch self {
    case .node: "Every node"
    case .keys: "Edge and coordinator"
    case .edge: "Edge"
    case .coordinator: "Coordinator"
    case .push: "Push gateway"
    case .calls: "Rules of calls, the same on every node"
    }
  }
}
