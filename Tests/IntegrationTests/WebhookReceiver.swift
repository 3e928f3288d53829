import CallAuth
import CallCore
import CallTestKit
import Foundation
import Synchronization

/// The app's server: fails while a test makes it fail, and keeps what it has taken.
final class WebhookReceiver: Sendable {
  private static let secretBytes = [UInt8](repeating: 7, count: 32)
  /// The app's secret in the file of keys.
  static let secret = "whsec_" + Data(secretBytes).base64EncodedString()

  private struct Body: Decodable {
    struct Details: Decodable {
      /// Set in an event of a call.
      var call: String?
      /// Set in an event of a device.
      var user: String?
      var device: String?
      var cause: String?
      var provider: String?
      var token: String?
    }
    var type: String
    var id: String
    var app: String
    var data: Details
  }

  /// An attempt to deliver an event.
  struct Attempt: Sendable {
    var id: String
    /// When the gateway made it.
    var seconds: Int64
  }

  private struct State {
    var isAway = false
    /// The next attempt is asked to wait for so long.
    var busySeconds: Int64?
    var isGone = false
    var attempts: [Attempt] = []
    var bodies: [Body] = []
    var failed = 0
    var unsigned = 0
  }
  private let state = Mutex(State())
  private let endpoint = SignedEndpoint(url: "", secrets: [secretBytes])

  func take(_ request: SimulatedRequest) -> SimulatedReply {
    let body = try? JSONDecoder().decode(Body.self, from: Data(request.body))
    let id = request.header("webhook-id") ?? ""
    let seconds = Int64(request.header("webhook-timestamp") ?? "") ?? 0
    let signature = endpoint.signature(id: id, seconds: seconds, body: request.body)
    return state.withLock { state in
      guard let body, body.id == id, request.header("webhook-signature") == signature else {
        state.unsigned += 1
        return .answer(status: 403)
      }
      state.attempts.append(Attempt(id: id, seconds: seconds))
      if let wait = state.busySeconds {
        state.busySeconds = nil
        let date = Self.date(seconds: seconds + wait)
        return .answer(status: 503, headers: [("Retry-After", date)])
      }
      if state.isGone { return .answer(status: 410) }
      if state.isAway {
        state.failed += 1
        return .answer(status: 503)
      }
      state.bodies.append(body)
      return .answer(status: 204)
    }
  }

  /// As HTTP writes it (RFC 9110, 5.6.7).
  private static func date(seconds: Int64) -> String {
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = TimeZone(secondsFromGMT: 0)
    formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
    return formatter.string(from: Date(timeIntervalSince1970: Double(seconds)))
  }

  /// The next attempt gets 503, with the date before which there is to be no other.
  func isBusyOnce(forSeconds seconds: Int64) { state.withLock { $0.busySeconds = seconds } }
  /// All attempts get 410 from now on.
  func isGone() { state.withLock { $0.isGone = true } }
  /// All that were signed, in their order.
  var attempts: [Attempt] { state.withLock { $0.attempts } }

  func goAway(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }
  var failed: Int { state.withLock { $0.failed } }
  var unsigned: Int { state.withLock { $0.unsigned } }

  /// The events of a call, each as it first came.
  func events(_ call: CallID) -> [String] {
    let all = state.withLock { $0.bodies }
    var found: [String] = []
    for body in all where body.data.call == "\(call)" && !found.contains(body.type) {
      found.append(body.type)
    }
    return found
  }
  func calls() -> Set<String> { Set(state.withLock { $0.bodies.compactMap(\.data.call) }) }

  /// The registrations and tokens that are gone, each once.
  func gone() -> Set<[String?]> {
    let all = state.withLock { $0.bodies.filter { $0.type == "device.gone" } }
    return Set(
      all.map {
        [$0.data.user, $0.data.device, $0.data.cause, $0.data.provider, $0.data.token]
      })
  }
}
