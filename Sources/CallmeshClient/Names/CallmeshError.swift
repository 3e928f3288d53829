internal import CallCore

/// Why a command failed, or why a device makes no further attempt. Base decisions on `code`: `message` is for logs.
///
/// A busy, declined or unanswered call is no error: see `Call.end`.
public struct CallmeshError: Error, Hashable, Sendable, CustomStringConvertible {
  public let code: Code
  public let message: String
  /// When a retry can succeed; zero: not said.
  public let retryAfter: Duration

  init(_ code: Code, _ message: String? = nil, retryAfter: Duration = .zero) {
    self.code = code
    self.message = message ?? code.sentence
    self.retryAfter = retryAfter
  }

  init(_ error: CallError) {
    self.init(
      Code(error.code), error.message,
      retryAfter: .milliseconds(Int64(error.retryAfterMilliseconds)))
  }

  /// The code in words, which never changes for a code.
  public var codeName: String { code.name }

  public var description: String { "\(code.rawValue) \(codeName): \(message)" }
}
