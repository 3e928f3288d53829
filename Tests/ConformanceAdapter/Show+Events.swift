import CallClient
import CallCore
import CallWire
import Foundation

// Events of the client as the suite reads them. What the protocol has a form for is written in that form.
extension Show {
  static func event(_ event: ClientEvent) {
    switch event {
    case .attached(let info, _):
      line("attached")
      if let relays = info.relays { self.relays(relays) }
    case .detached: line("detached")
    case .notTrusted: break
    case .refused(let error): line("refused", ["code": Int(error.code.rawValue)])
    case .call(let call, .won(let state)):
      line("won", named(call, body(json(.reply(id: 1, .call(state))), "reply"), "call"))
    case .call(let call, let event): happened(call, event)
    case .ongoing(let calls):
      line("ongoing", body(json(.ongoing(OngoingCalls(version: 1, calls: calls))), "ongoing"))
    case .history(let state): line("history", body(json(.history(state)), "history"))
    case .relays(let relays): self.relays(relays)
    case .notice(let notice): line("notice", body(json(.notice(notice)), "notice"))
    // The completion of the command says so.
    case .replied, .gaveUp: break
    }
  }

  private static func relays(_ relays: RelayCredentials) {
    line("relays", body(json(.relays(relays)), "relays"))
  }

  private static func happened(_ call: CallID, _ event: CallEvent) {
    switch event {
    case .invited(let invite): delivery(call, .invite(invite), "invite", as: "rings")
    case .ringing(let by): delivery(call, .ringing(by: by), "ringing", as: "ringing")
    case .answered(let answered): delivery(call, .answered(answered), "answered", as: "answered")
    case .stopped(let stop): delivery(call, .stop(stop), "stop", as: "stopped")
    case .signal(let signal): delivery(call, .signal(signal), "signal", as: "signal")
    case .moved(let moved): delivery(call, .moved(moved), "moved", as: "moved")
    case .transfer(let news): delivery(call, .transfer(news), "transfer", as: "transfer")
    case .ringsUntil(let deadline):
      delivery(call, .ringsUntil(deadline), "ringsUntil", as: "ringsUntil")
    case .won: break
    }
  }

  /// A command was refused, or got no reply.
  static func failed(_ command: String, _ call: String?, _ error: CallError) {
    var body: [String: Any] = ["of": command, "code": Int(error.code.rawValue)]
    body["call"] = call
    line("failed", body)
  }

  /// A command's reply.
  static func result(_ command: String, _ call: String?, _ reply: ServerReply) {
    var members = body(json(.reply(id: 1, reply)), "reply")
    members["id"] = nil
    members["done"] = nil
    var body: [String: Any] = ["of": command, "value": members.values.first ?? NSNull()]
    body["call"] = call
    line("result", body)
  }

  private static func delivery(
    _ call: CallID, _ event: Delivery.Event, _ name: String, as shown: String
  ) {
    let delivery = Delivery(
      call: call, callee: "", version: 1, at: Timestamp(microseconds: 0), event: event)
    line(shown, named(call, body(json(.delivery(delivery)), "delivery"), name))
  }

  /// The member `name`, with the call's id.
  private static func named(
    _ call: CallID, _ object: [String: Any], _ name: String
  ) -> [String: Any] {
    var body = body(object, name)
    body["call"] = call.description
    return body
  }

  private static func body(_ object: [String: Any], _ name: String) -> [String: Any] {
    object[name] as? [String: Any] ?? [:]
  }

  private static func json(_ frame: ServerFrame) -> [String: Any] {
    let bytes = Data(DeviceCodec.json.encode(frame))
    return (try? JSONSerialization.jsonObject(with: bytes)) as? [String: Any] ?? [:]
  }
}
