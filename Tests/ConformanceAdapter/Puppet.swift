import CallClient
import CallCore
import CallWire
import Foundation
import NIOCore

/// One device, and what the suite tells it. Lives on its event loop.
final class Puppet {
  private let eventLoop: any EventLoop
  private let time = VirtualLoop()
  private var network: WatchedNetwork?
  private var driver: DeviceDriver?

  init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

  /// Takes one line of the suite.
  func handle(_ line: String) {
    guard
      let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
      let (name, value) = object.first, let body = value as? [String: Any]
    else { return }
    switch name {
    case "start": start(body)
    case "signOut": driver?.stop()
    case "token": driver?.tokenRenewed(body["token"] as? String)
    case "wake":
      guard let address = address(body) else { return }
      driver?.woken(for: address.call, callee: address.callee)
    case "advance":
      time.advance(by: .milliseconds((body["ms"] as? NSNumber)?.int64Value ?? 0))
      synced(body)
    case "sync": synced(body)
    default: command(name, body)
    }
  }

  private func start(_ body: [String: Any]) {
    var configuration = DeviceConfiguration(
      edges: body["edges"] as? [String] ?? [], token: body["token"] as? String ?? "",
      device: body["device"] as? String ?? "")
    configuration.deviceName = body["deviceName"] as? String ?? ""
    configuration.renewsToken = body["renews"] as? Bool ?? false
    configuration.wantsOngoing = body["ongoing"] as? Bool ?? false
    configuration.wantsHistory = body["history"] as? Bool ?? false
    configuration.wantsRelays = body["relays"] as? Bool ?? false
    let codec: DeviceCodec = body["encoding"] as? String == "json" ? .json : .protobuf
    let network = WatchedNetwork(NIODeviceNetwork(eventLoop: eventLoop, codec: codec))
    let host = DeviceHost(loop: time, network: network, seed: 1)
    let driver = DeviceDriver(configuration) {
      host
    } renewToken: { _ in
      Show.line("needsToken")
    } onEvent: {
      Show.event($0)
    }
    self.network = network
    self.driver = driver
    driver.start()
  }

  /// Says that all is done that needs no time to pass: what is on its way in the loop, and attempts to connect.
  private func synced(_ body: [String: Any], turns: Int = 4) {
    let number = (body["n"] as? NSNumber)?.intValue ?? 0
    let bound = NIOLoopBound(self, eventLoop: eventLoop)
    func again(_ turns: Int) {
      if bound.value.network?.connecting ?? 0 > 0 {
        eventLoop.assumeIsolated().scheduleTask(in: .microseconds(200)) { again(4) }
      } else if turns > 0 {
        eventLoop.assumeIsolated().execute { again(turns - 1) }
      } else {
        Show.line("synced", ["n": number])
      }
    }
    again(turns)
  }

  // MARK: Commands

  /// A command of the app: its name and its body are the protocol's.
  private func command(_ name: String, _ body: [String: Any]) {
    let call = (body["call"] as? [String: Any])?["id"] as? String
    switch read(name, body) {
    case .failure(let error): Show.failed(name, call, error.error)
    case .success(let command):
      driver?.submit(asAppsSay(command)) { result in
        switch result {
        case .success(.error(let error)), .failure(let error): Show.failed(name, call, error)
        case .success(let reply): Show.result(name, call, reply)
        }
      }
    }
  }

  private func read(_ name: String, _ body: [String: Any]) -> Result<ClientCommand, FrameError> {
    let frame: [String: Any] = ["id": 1, name: body]
    let bytes = (try? JSONSerialization.data(withJSONObject: frame)).map { [UInt8]($0) } ?? []
    // A frame that is too large is the cluster's to refuse, so this reads more.
    var limits = CallLimits()
    limits.signalBytes = 100_000
    return bytes.withUnsafeBytes { bytes in
      Result { () throws(FrameError) in
        try DeviceCodec.json.decodeClient(bytes, limits: limits).command
      }
    }
  }

  /// An app names a call by its id alone: where the client knows the call it adds the callee itself.
  private func asAppsSay(_ command: ClientCommand) -> ClientCommand {
    guard case .call(let address, let verb) = command, let driver else { return command }
    switch verb {
    case .pull, .query, .resume: return command
    default: return .call(driver.machine.address(address.call), verb)
    }
  }

  private func address(_ body: [String: Any]) -> CallAddress? {
    guard case .success(.call(let address, _)) = read("query", body) else { return nil }
    return address
  }
}
