/// All problems of a configuration, each with key, value, origin and remedy.
package struct ConfigurationError: Error, Sendable, Equatable, CustomStringConvertible {
  package struct Problem: Sendable, Equatable {
    package var setting: String
    /// As given, without credentials.
    package var value: String?
    package var origin: SettingOrigin?
    package var problem: String
    package var remedy: String?
  }

  package var problems: [Problem]
  package init(_ problems: [Problem]) { self.problems = problems }

  package var description: String {
    var out =
      problems.count == 1
      ? "The configuration is not usable:"
      : "The configuration has \(problems.count) problems:"
    for problem in problems {
      out += "\n  \(problem.setting)"
      if let value = problem.value { out += " = \"\(value)\"" }
      if let origin = problem.origin { out += ", from \(origin.shown)" }
      out += ": \(problem.problem)."
      if let remedy = problem.remedy { out += "\n    \(remedy)" }
    }
    return out
  }
}

/// Where a value comes from.
package enum SettingOrigin: Sendable, Equatable {
  case flag(String)
  case environment(String)
  case file(String)
  case standard

  package var shown: String {
    switch self {
    case .flag(let name): "the flag \(name)"
    case .environment(let name): "the environment variable \(name)"
    case .file(let path): "the file \(path)"
    case .standard: "the default"
    }
  }

  /// The flag, the variable or the file; nil for a default.
  package var place: String? {
    switch self {
    case .flag(let name), .environment(let name), .file(let name): name
    case .standard: nil
    }
  }

  /// The first word alone, for JSON.
  package var kindName: String {
    switch self {
    case .flag: "flag"
    case .environment: "environment"
    case .file: "file"
    case .standard: "default"
    }
  }
}
