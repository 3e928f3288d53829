/// A program to start, and where its output goes.
package struct ChildCommand: Sendable {
  package enum Inheritance: Sendable {
    case nothing
    /// All but `CALLMESH_` variables: settings of nodes in this shell must not change what is measured.
    case allButSettings
    case all
  }

  package var name: String
  package var executable: String
  /// The program that every second start runs.
  package var otherExecutable: String?
  package var arguments: [String]
  /// The file that its output is appended to.
  package var logPath: String
  /// A descriptor of this process; nil: nothing can be read.
  package var standardInput: CInt?
  /// A descriptor of this process; nil: the log.
  package var standardOutput: CInt?
  /// A descriptor of this process; nil: where the standard output goes.
  package var standardError: CInt?
  /// In addition to what is inherited.
  package var environment: [String: String] = [:]
  package var inherits = Inheritance.allButSettings

  package init(
    name: String, executable: String, arguments: [String], logPath: String = "/dev/null"
  ) {
    self.name = name
    self.executable = executable
    self.arguments = arguments
    self.logPath = logPath
  }

  /// - Parameter own: the environment of this process.
  package func variables(of own: [String: String]) -> [String: String] {
    let inherited =
      switch inherits {
      case .nothing: [String: String]()
      case .allButSettings: own.filter { !$0.key.hasPrefix("CALLMESH_") }
      case .all: own
      }
    return inherited.merging(environment) { $1 }
  }

  /// The same with the other program, where there are two.
  package var other: ChildCommand {
    var other = self
    if let otherExecutable {
      other.executable = otherExecutable
      other.otherExecutable = executable
    }
    return other
  }
}
