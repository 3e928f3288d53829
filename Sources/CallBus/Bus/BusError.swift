/// An error of the bus or of a store, with a sentence for operators.
///
/// Callers compare cases and codes, never sentences.
public enum BusError: Error, Sendable, Equatable {
  case timeout
  case noResponders
  case closed
  /// The store is unavailable: it starts, elects a leader, or is not enabled.
  case notReady(String, code: Code? = nil)
  /// An error of the server or the library.
  case failed(String, code: Code? = nil)

  /// The number that NATS gave.
  public enum Code: Sendable, Equatable {
    /// JetStream's `err_code`; 0 in an error without one.
    case jetStream(UInt64)
    /// A `natsStatus` of the client library.
    case library(UInt32)
  }

  /// nil: the error was not reported by NATS.
  public var code: Code? {
    switch self {
    case .timeout, .noResponders, .closed: nil
    case .notReady(_, let code), .failed(_, let code): code
    }
  }

  /// Whether the same operation may succeed later, without anyone's intervention.
  public var isTransient: Bool {
    switch self {
    case .timeout, .noResponders, .notReady: true
    case .closed, .failed: false
    }
  }
}

extension BusError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .timeout: "no answer in time"
    case .noResponders: "nobody listens"
    case .closed: "the bus is closed"
    case .notReady(let sentence, _), .failed(let sentence, _): sentence
    }
  }
}
