/// One row of the table of settings: the single source of flags, help, errors, `callnode config` and the
/// documentation. The default is the value of the property in `NodeConfiguration()`.
package struct Setting: Sendable {
  package let key: SettingKey
  package private(set) var group = SettingGroup.node
  /// The type as documentation and help name it.
  package let typeName: String
  /// The values that it takes, in short.
  package let accepts: String
  /// The values that it takes, as the end of "must be …".
  package let demand: String
  /// One or two sentences of what it does.
  package private(set) var meaning = ""
  /// The remedy for a refused value, beyond what `demand` says.
  package let remedy: String?
  /// The default as help and documentation show it.
  package let defaultText: String
  /// Whether there is a value when none is given.
  package let hasDefault: Bool
  private let writer: @Sendable (String, inout NodeConfiguration) -> Bool
  private let reader: @Sendable (NodeConfiguration) -> String

  /// - Parameters:
  ///   - path: the property that holds the value, with the default.
  ///   - unset: how the default comes about when the property is empty.
  init<Value: Sendable>(
    _ key: SettingKey, _ path: any WritableKeyPath<NodeConfiguration, Value> & Sendable,
    _ kind: ValueKind<Value>, unset: String = "none", remedy: String? = nil
  ) {
    self.init(key, kind, unset, remedy, { $1[keyPath: path] = $0 }, { $0[keyPath: path] })
  }

  /// As above, for a property that is nil by default.
  init<Value: Sendable>(
    _ key: SettingKey, _ path: any WritableKeyPath<NodeConfiguration, Value?> & Sendable,
    _ kind: ValueKind<Value>, unset: String = "none", remedy: String? = nil
  ) {
    self.init(key, kind, unset, remedy, { $1[keyPath: path] = $0 }, { $0[keyPath: path] })
  }

  private init<Value: Sendable>(
    _ key: SettingKey, _ kind: ValueKind<Value>, _ unset: String, _ remedy: String?,
    _ write: @escaping @Sendable (Value, inout NodeConfiguration) -> Void,
    _ read: @escaping @Sendable (NodeConfiguration) -> Value?
  ) {
    self.key = key
    typeName = kind.typeName
    accepts = kind.accepts
    demand = kind.demand
    self.remedy = remedy
    writer = { text, node in kind.read(text).map { write($0, &node) } != nil }
    reader = { read($0).map(kind.text) ?? "" }
    let standard = reader(NodeConfiguration())
    hasDefault = !standard.isEmpty
    defaultText = hasDefault ? standard : unset
  }

  /// Writes the value that `text` stands for.
  /// - Returns: false where the text is not acceptable.
  package func write(_ text: String, to node: inout NodeConfiguration) -> Bool {
    writer(text, &node)
  }

  /// Returns the value as an operator would write it, without credentials; nil where there is none.
  package func text(_ node: NodeConfiguration) -> String? {
    let text = reader(node)
    return text.isEmpty ? nil : text
  }

  /// A list of settings, each followed by its meaning.
  @resultBuilder enum Rows {
    static func buildPartialBlock(first: Setting) -> [Setting] { [first] }
    static func buildPartialBlock(accumulated: [Setting], next: Setting) -> [Setting] {
      accumulated + [next]
    }
    static func buildPartialBlock(accumulated: [Setting], next meaning: String) -> [Setting] {
      var rows = accumulated
      rows[rows.count - 1].meaning = meaning
      return rows
    }
  }

  static func rows(_ group: SettingGroup, @Rows _ rows: () -> [Setting]) -> [Setting] {
    var rows = rows()
    for index in rows.indices { rows[index].group = group }
    return rows
  }
}

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
