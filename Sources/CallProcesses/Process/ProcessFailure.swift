/// Why a process or a cluster did not start: a sentence that names the cause and, where there is one, the remedy.
package struct ProcessFailure: Error, CustomStringConvertible, Equatable {
  package var description: String
  package init(_ description: String) { self.description = description }
}

package enum ProcessEnd: Sendable, Equatable, CustomStringConvertible {
  case exited(Int32)
  case signalled(Int32)

  package var description: String {
    switch self {
    case .exited(let status): "exited with status \(status)"
    case .signalled(let signal): "was ended by signal \(signal)"
    }
  }

  /// As a shell gives it: 128 and more after a signal.
  package var status: Int32 {
    switch self {
    case .exited(let status): status
    case .signalled(let signal): 128 + signal
    }
  }
}
