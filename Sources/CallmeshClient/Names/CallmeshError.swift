internal import CallCore

/// Why a command failed, or why a device makes no further attempt. Base decisions on `code`: `message` is for logs.
///
/// That a call was busy, declined or unanswered is no error: `Call.end` says it.
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
