import CallTestKit
import Synchronization

/// The pushes that APNs handed to devices.
final class PushMail: Sendable {
  private let all = Mutex<[APNsPush]>([])

  func take(_ push: APNsPush) { all.withLock { $0.append(push) } }

  /// In order.
  func pushes(to token: String) -> [APNsPush] {
    all.withLock { $0.filter { $0.token == token } }
  }
}
