// The program that plugin-bisect is tried on. It calls the ops of the fixture many_ops, prints how many results were
// right, and exits with 1 if one was not.
//
//     calls-many [prepared] [silent] [own-policy]
#include <iostream>
#include <set>
#include <string>

#include <opdock/opdock.hpp>

namespace {

bool is_right(const opdock::Host &host, int place, bool prepared) {
    float in[4] = {1, 2, 3, 4}, out[4] = {};
    const opdock::Tensor input(in, opdock::f32, {4});
    const opdock::Tensor output(out, opdock::f32, {4});
    const opdock::Op op = host.op("many.op" + std::to_string(place));
    if (prepared) {
        if (op.prepare({&input}, {&output}).run({in, out}) != OPDOCK_OK) {
            return false;
        }
    } else {
        op({&input}, {&output});
    }
    return out[0] == 2 && out[3] == 5;
}

} // namespace

int main(int argc, char **argv) try {
    const std::set<std::string> words(argv + 1, argv + argc);
    opdock::Options options;
    if (words.contains("silent")) {
        options.log = [](int32_t /*level*/, std::string_view /*line*/) {};
    }
    opdock::Host host(options);
    if (words.contains("own-policy")) {
        host.set_policy(host.policy({{"per_op", "many.op7=vendor"}}));
    }
    int right = 0;
    for (int place = 0; place < 64; ++place) {
        right += is_right(host, place, words.contains("prepared")) ? 1 : 0;
    }
    std::cout << "right: " << right << "\n";
    return right == 64 ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 2;
}
