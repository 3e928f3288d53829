package import CallTestKit
internal import Foundation
internal import Synchronization

/// `messages:send` (firebase.google.com/docs/reference/fcm/rest/v1).
extension FCMSimulator {
  func send(_ request: SimulatedRequest) -> SimulatedReply {
    state.withLock { $0.requests += 1 }
    guard request.method == "POST" else {
      violation("send: method \(request.method)")
      return Self.failure(405, "METHOD_NOT_ALLOWED")
    }
    guard let accessToken = goodToken(request) else {
      return sendScript.next() ?? Self.failure(401, "UNAUTHENTICATED")
    }
    guard request.header("content-type")?.hasPrefix("application/json") == true else {
      violation("send: content type")
      return Self.failure(400, "INVALID_ARGUMENT")
    }
    switch message(request, accessToken) {
    case .failure(let fault):
      violation("send: \(fault.field)")
      return sendScript.next() ?? Self.badField(fault.field)
    case .success(let message):
      if let scripted = sendScript.next() { return scripted }
      if let code = state.withLock({ $0.badDevices[message.token] }) {
        return Self.refusal(code)
      }
      return state.withLock { state in
        var accepted = message
        accepted.name = "projects/\(project)/messages/0:\(state.accepted.count + 1)%ab"
        state.accepted.append(accepted)
        return .answer(
          status: 200, headers: [("content-type", "application/json; charset=UTF-8")],
          body: "{\n  \"name\": \"\(accepted.name)\"\n}\n")
      }
    }
  }

  private func goodToken(_ request: SimulatedRequest) -> String? {
    let headers = request.headers.filter { $0.name == "authorization" }
    guard headers.count == 1, let value = headers.first?.value, value.hasPrefix("Bearer ") else {
      violation("send: authorization")
      return nil
    }
    let token = String(value.dropFirst(7))
    let now = nowSeconds()
    return state.withLock { ($0.tokens[token] ?? 0) > now } ? token : nil
  }

  struct Fault: Error {
    var field: String
  }

  private func message(
    _ request: SimulatedRequest, _ accessToken: String
  ) -> Result<Accepted, Fault> {
    func fault(_ field: String) -> Result<Accepted, Fault> { .failure(Fault(field: field)) }
    guard let root = try? JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any],
      Set(root.keys) == ["message"], let message = root["message"] as? [String: Any]
    else { return fault("body") }
    guard Set(message.keys).union(["apns"]) == ["token", "data", "android", "webpush", "apns"]
    else { return fault("message") }
    guard let token = message["token"] as? String, !token.isEmpty else {
      return fault("message.token")
    }
    guard let data = message["data"] as? [String: String], !data.isEmpty else {
      return fault("message.data")
    }
    let reserved = data.keys.contains {
      ["from", "message_type"].contains($0) || $0.hasPrefix("google") || $0.hasPrefix("gcm")
    }
    let bytes = data.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
    guard !reserved, bytes <= 4096 else { return fault("message.data") }
    guard let android = message["android"] as? [String: Any],
      Set(android.keys) == ["priority", "ttl", "direct_boot_ok"]
    else { return fault("message.android") }
    guard let priority = android["priority"] as? String, ["high", "normal"].contains(priority)
    else { return fault("message.android.priority") }
    guard android["direct_boot_ok"] as? Bool == true else {
      return fault("message.android.direct_boot_ok")
    }
    guard let text = android["ttl"] as? String, text.hasSuffix("s"),
      let ttl = Int(text.dropLast()), (0...2_419_200).contains(ttl)
    else { return fault("message.android.ttl") }
    let web = (message["webpush"] as? [String: Any])?["headers"] as? [String: String] ?? [:]
    guard Set(web.keys) == ["TTL", "Urgency"], web["TTL"] == "\(ttl)", let urgency = web["Urgency"]
    else { return fault("message.webpush.headers") }
    var accepted = Accepted(
      name: "", token: token, data: data, priority: priority, ttlSeconds: ttl, urgency: urgency,
      accessToken: accessToken, httpVersion: request.httpVersion)
    if let apns = message["apns"] as? [String: Any] {
      guard let alert = Self.alert(apns) else { return fault("message.apns") }
      accepted.alert = alert
    }
    return .success(accepted)
  }

  private static func alert(_ apns: [String: Any]) -> Alert? {
    guard Set(apns.keys) == ["headers", "payload"],
      let headers = apns["headers"] as? [String: String],
      headers["apns-push-type"] == "alert", headers["apns-priority"] == "10",
      let expiration = headers["apns-expiration"].flatMap(Int64.init),
      let payload = apns["payload"] as? [String: Any], Set(payload.keys) == ["aps"],
      let aps = payload["aps"] as? [String: Any], let alert = aps["alert"] as? [String: Any],
      let key = alert["loc-key"] as? String, let names = alert["loc-args"] as? [String]
    else { return nil }
    return Alert(
      expiration: expiration, collapseID: headers["apns-collapse-id"], key: key, names: names)
  }

  // MARK: Answers in the form of the real service

  /// An error.
  /// - Parameter fcm: FCM's own code; nil: the error has no details.
  package static func failure(
    _ code: Int, _ status: String, fcm: String? = nil, message: String = "simulated",
    headers: [(String, String)] = []
  ) -> SimulatedReply {
    failure(
      code, status, message, headers,
      details: fcm.map {
        #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#($0)"}"#
      })
  }

  static func badField(_ field: String) -> SimulatedReply {
    failure(
      400, "INVALID_ARGUMENT", "Invalid", [],
      details: #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":["#
        + #"{"field":"\#(field)","description":"Invalid"}]}"#)
  }

  private static func failure(
    _ code: Int, _ status: String, _ message: String, _ headers: [(String, String)],
    details: String?
  ) -> SimulatedReply {
    .answer(
      status: code, headers: headers + [("content-type", "application/json; charset=UTF-8")],
      body: #"{"error":{"code":\#(code),"message":"\#(message)","status":"\#(status)""#
        + (details.map { #","details":[\#($0)]"# } ?? "") + "}}")
  }

  private static func refusal(_ code: String) -> SimulatedReply {
    switch code {
    case "UNREGISTERED": failure(404, "NOT_FOUND", fcm: code)
    case "SENDER_ID_MISMATCH": failure(403, "PERMISSION_DENIED", fcm: code)
    default:
      failure(
        400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT",
        message: "The registration token is not a valid FCM registration token")
    }
  }
}
