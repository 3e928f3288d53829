import CallCore
import CallTestKit
import Testing

struct ScriptTests {
  private func struck(
    _ rule: APNsScript.Rule, requests: Int, connection: (Int) -> Int = { _ in 1 }
  ) -> [Int] {
    var state = APNsScriptState(APNsScript([rule]))
    return (1...requests).filter {
      !state.faults(connection: connection($0), token: "aa", now: noon).isEmpty
    }
  }

  @Test func strikesFromEveryAndSoManyTimes() {
    for (rule, requests, struck) in [
      (.init(.refuse), 4, [1, 2, 3, 4]), (.init(.refuse, from: 3), 4, [3, 4]),
      (.init(.refuse, from: 2, every: 3), 9, [2, 5, 8]),
      (.init(.refuse, every: 2, times: 2), 9, [1, 3]),
    ] as [(APNsScript.Rule, Int, [Int])] {
      #expect(self.struck(rule, requests: requests) == struck)
    }
  }

  @Test func countsPerConnectionOrAllTogether() {
    for (rule, struck) in [
      (.init(.refuse, from: 2), [2, 3, 4]),
      (.init(.refuse, from: 2, perConnection: true), [3, 4]),
      (.init(.refuse, connections: 2...2), [2, 4]),
    ] as [(APNsScript.Rule, [Int])] {
      #expect(self.struck(rule, requests: 4) { $0.isMultiple(of: 2) ? 2 : 1 } == struck)
    }
  }

  @Test func strikesTokensAndTimes() {
    var state = APNsScriptState(
      APNsScript([
        .init(.noAnswer, tokens: ["aa"]), .init(.refuse, during: noon..<(noon + .seconds(1))),
      ]))
    #expect(state.faults(connection: 1, token: "aa", now: noon) == [.noAnswer, .refuse])
    #expect(state.faults(connection: 1, token: "bb", now: noon + .seconds(1)) == [])
    #expect(state.faults(connection: 1, token: nil, now: noon + .milliseconds(999)) == [.refuse])
  }

  @Test func strikesTokensThatWereAcceptedBefore() {
    var state = APNsScriptState(
      APNsScript([.init(.refuse, from: 2, times: 2, onlyAccepted: true)]))
    func strikes(_ token: String?) -> Bool {
      !state.faults(connection: 1, token: token, now: noon).isEmpty
    }
    #expect(!strikes("aa") && !strikes(nil))
    state.noteAccepted("aa")
    #expect(!strikes("aa"), "the first of them")
    #expect(!strikes("bb"))
    #expect(strikes("aa") && strikes("aa"))
    #expect(!strikes("aa"), "two at most")
  }

  @Test func aShareIsAboutThatManyAndTheSameForASeed() {
    let rule = APNsScript.Rule(.refuse, share: 0.2)
    let once = struck(rule, requests: 1000)
    #expect(150...250 ~= once.count)
    #expect(struck(rule, requests: 1000) == once)
    #expect(struck(.init(.refuse, share: 0), requests: 100) == [])
  }

  @Test func aConnectionThatEndedIsForgotten() {
    var state = APNsScriptState(APNsScript([.init(.refuse, from: 2, perConnection: true)]))
    #expect(state.faults(connection: 1, token: nil, now: noon) == [])
    state.connectionEnded(1)
    #expect(state.faults(connection: 1, token: nil, now: noon) == [])
    #expect(state.faults(connection: 1, token: nil, now: noon) == [.refuse])
  }

  @Test func theFirstRuleOfAConnectionCounts() {
    let state = APNsScriptState(
      APNsScript(connections: [(2...2, .cut), (1...3, .silent)]))
    #expect(state.fault(ofConnection: 1) == .silent)
    #expect(state.fault(ofConnection: 2) == .cut)
    #expect(state.fault(ofConnection: 4) == nil)
  }
}

@Suite("R34: one push per bundle and device is kept")
struct ShelfTests {
  private func push(_ id: String, expiration: Int64?, bundle: String = "b") -> APNsPush {
    APNsPush(
      id: id, token: "t", type: .alert, topic: bundle, bundle: bundle, payload: [],
      expiration: expiration, at: noon, connection: 1)
  }
  private let later = noon.microseconds / 1_000_000 + 100

  @Test func aDeviceThatIsThereGetsAll() {
    var shelf = APNsShelf()
    #expect(shelf.delivers(push("1", expiration: 0), to: "d") == true)
    #expect(shelf.delivers(push("2", expiration: nil), to: "d") == true)
    #expect(shelf.comeBack("d", now: noon) == [])
  }

  @Test func theLastIsKeptAndNowOrNeverIsDropped() {
    var shelf = APNsShelf()
    shelf.leave("d")
    #expect(shelf.delivers(push("1", expiration: later), to: "d") == false)
    #expect(shelf.delivers(push("2", expiration: nil), to: "d") == false)
    #expect(shelf.delivers(push("3", expiration: 0), to: "d") == false)
    #expect(shelf.delivers(push("4", expiration: later, bundle: "c"), to: "d") == false)
    #expect(shelf.delivers(push("5", expiration: 0), to: "e") == true)
    #expect(Set(shelf.comeBack("d", now: noon).map(\.id)) == ["2", "4"])
    #expect((shelf.dropped, shelf.replaced, shelf.expired) == (1, 1, 0))
    #expect(shelf.comeBack("d", now: noon) == [])
    #expect(shelf.delivers(push("6", expiration: 0), to: "d") == true)
  }

  @Test func whatExpiresMeanwhileIsNotDelivered() {
    var shelf = APNsShelf()
    shelf.leave("d")
    _ = shelf.delivers(push("1", expiration: later), to: "d")
    #expect(shelf.comeBack("d", now: noon + .seconds(101)) == [])
    #expect(shelf.expired == 1)
    shelf.leave("d")
    _ = shelf.delivers(push("2", expiration: later), to: "d")
    #expect(shelf.comeBack("d", now: noon + .seconds(100)).map(\.id) == ["2"])
  }
}
