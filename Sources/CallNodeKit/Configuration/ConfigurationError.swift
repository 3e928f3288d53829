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
  init(
    setting: String, value: String?, origin: SettingOrigin? = nil, problem: String, remedy: String?
  ) {
    problems = [
      Problem(setting: setting, value: value, origin: origin, problem: problem, remedy: remedy)
    ]
  }

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
package struct SettingOrigin: Sendable, Equatable {
  /// `flag`, `environment`, `file` or `default`.
  package var kind: String
  /// The flag, the variable or the file; nil for a default.
  package var place: String?

  package static let standard = Self(kind: "default")
  package static func flag(_ name: String) -> Self { Self(kind: "flag", place: name) }
  package static func environment(_ name: String) -> Self { Self(kind: "environment", place: name) }
  package static func file(_ path: String) -> Self { Self(kind: "file", place: path) }

  var shown: String {
    "the \(kind)\(kind == "environment" ? " variable" : "")\(place.map { " \($0)" } ?? "")"
  }
}
